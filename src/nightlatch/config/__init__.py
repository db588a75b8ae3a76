"""nightlatch.toml: found, read and checked as a whole. This layer imports core and system, and opens no store."""
