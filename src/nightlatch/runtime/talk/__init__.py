"""The private socket between a supervisor and its command: both ends."""
