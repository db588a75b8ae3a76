"""What becomes of runs that are over: lapsed, decided by a person, pruned."""
