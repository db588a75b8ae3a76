"""The run's private socket: the child's requests and their replies."""
