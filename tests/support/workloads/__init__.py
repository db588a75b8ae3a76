"""Several processes that share a set under a lease, while faults are injected."""
