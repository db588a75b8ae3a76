"""Keep other processes of this user from reading this one's memory and environment."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Keep this process's memory out of core dumps, and unreadable in /proc for other processes of the same user."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
