"""Workspaces, and how their result lands through the gates."""
