"""The pages: what observe/ sees, drawn on the server, and the decisions of a person, passed on to the same functions as
the command line's. One process on loopback serves them. The package may import everything but cli/ and testing/."""
