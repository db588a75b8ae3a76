"""Speaking to the run's supervisor, from inside a run."""

from __future__ import annotations

import os

from ..runtime.tell import tell

__all__ = ["store_of_run", "tell"]


def store_of_run() -> str | None:
    """Inside a run: the run's store, which its supervisor keeps out of the environment. None elsewhere, and where
    the environment names one."""
    if "NIGHTLATCH_SOCKET" not in os.environ or os.environ.get("NIGHTLATCH_STORE"):
        return None
    return str(tell(do="store")["url"])
