"""The way of one run: `tries` makes all tries of a start, `pipeline` makes one of them."""
