"""The process that keeps the lease, enforces the bounds from outside, and is the run's one writer."""
