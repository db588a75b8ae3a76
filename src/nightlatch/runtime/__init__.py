"""All that works under a lease. The path says which process a file runs in: both, supervisor, child or caller."""
