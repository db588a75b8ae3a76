"""Keep other processes of this user from reading this one's memory and environment."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """No core dump has what this process knows, and /proc does not show it to others of the same user."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
