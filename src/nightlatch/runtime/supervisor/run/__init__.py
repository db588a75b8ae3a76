"""The way of one run; `pipeline` reads in its order."""
