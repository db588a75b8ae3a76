"""For the supervisor and its child alike; imports neither."""
