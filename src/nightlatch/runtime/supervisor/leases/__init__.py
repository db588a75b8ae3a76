"""Holding a lease while a command runs; gates that cannot be sealed."""
