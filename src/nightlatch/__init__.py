"""Nightlatch: each slot once, within bounds, and no way for a stale copy to write."""

__version__ = "0.1.0"
