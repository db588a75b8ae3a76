"""Many items in one run: the supervisor's checkpoints, and the driver that does the work."""
