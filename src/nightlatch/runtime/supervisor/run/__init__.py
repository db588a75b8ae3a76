"""How a run is made: `tries` makes all tries of a start, `pipeline` one of them, `attempt` what follows its seal."""
