"""All that works under a lease. The path says which process a file runs in: supervisor, child, caller; `shared` is used by all of them."""
