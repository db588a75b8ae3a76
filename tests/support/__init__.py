"""Helpers of the tests: programs to run, servers to run them against, and things to write to and look at."""
