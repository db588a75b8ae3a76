"""All work under a lease. The path says which process a file runs in: supervisor, child, caller, or any (shared)."""
