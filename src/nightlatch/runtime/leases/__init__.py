"""A lease as it is held: acquired, sealed, renewed, inherited, and the command under it."""
