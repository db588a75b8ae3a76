"""The way of one run: `tries` makes all tries of a start, `pipeline` one of them, `attempt` what follows its seal."""
