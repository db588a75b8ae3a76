"""Steps and nested runs: recorded by the supervisor, or by a child that writes them itself."""
