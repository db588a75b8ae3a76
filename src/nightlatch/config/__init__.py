"""nightlatch.toml: found, read and checked as a whole. It knows core and system, and opens no store."""
