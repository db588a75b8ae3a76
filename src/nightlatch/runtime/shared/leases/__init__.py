"""A lease as a process holds it: acquired, its gates sealed."""
