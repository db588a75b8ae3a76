"""A batch as a run whose command is the driver."""
