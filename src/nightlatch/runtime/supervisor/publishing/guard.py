"""The guard of a workspace: settings and hooks for our own git commands, kept beside it, out of the command's reach."""

from __future__ import annotations

import os


def guard_of(workspace: str) -> str:
    home, name = os.path.split(workspace)
    return os.path.join(os.path.dirname(home), "guards", name)
