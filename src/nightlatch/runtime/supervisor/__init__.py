"""The process that keeps the lease, imposes bounds from outside, and is the run's one writer."""
