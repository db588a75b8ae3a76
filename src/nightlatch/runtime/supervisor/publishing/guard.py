"""Settings and hooks for our own git commands in a workspace: beside it, out of reach of its command."""

from __future__ import annotations

import os


def guard_of(workspace: str) -> str:
    home, name = os.path.split(workspace)
    return os.path.join(os.path.dirname(home), "guards", name)
