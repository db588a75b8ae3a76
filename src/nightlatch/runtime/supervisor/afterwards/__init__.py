"""After a run: lapsed, decided by a person, pruned."""
