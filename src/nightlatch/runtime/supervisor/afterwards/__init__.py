"""What is left of a run: lapsed, decided by a person, pruned."""
