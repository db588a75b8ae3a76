"""The program that starts a run and waits for its verdict."""
