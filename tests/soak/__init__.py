"""`make soak`: every promise at once, for as long as you like, under faults that a seed decides. docs/guarantees.md."""
