"""Steps and runs inside a run: recorded by the supervisor, or by a child that writes them itself."""
