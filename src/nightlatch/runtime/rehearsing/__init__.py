"""Dry-runs: what would be done."""
