"""The run's private socket: what the child asks for, and the answers."""
