"""Real servers on loopback, and the faults that a network has."""
