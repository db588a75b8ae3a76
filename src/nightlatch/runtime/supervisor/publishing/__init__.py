"""Workspaces, and results that land through gates."""
