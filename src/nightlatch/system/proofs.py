"""The ways in which this machine can prove that a holder's processes are gone, as a list for people."""

from __future__ import annotations

import os
import sys

from . import cgroup

Proof = tuple[str, bool, str]  # (name, does this machine have it?, what it proves)


def kinds() -> list[Proof]:
    """Every kind of proof, the strongest first."""
    linux = sys.platform == "linux"
    return [
        (
            "cgroup",
            cgroup.possible(),
            "each run has its own: the kernel ends all that is in it, and says when it is empty",
        ),
        ("subreaper", linux, "runaway children come back to their warden: the kernel itself says when none is left"),
        ("lifetime lock", True, "free when supervisor and warden are gone, however they ended"),
        ("inherited lock", True, "free when every process that the command started is gone or has closed it"),
        ("sweep", _environments_can_be_read(), "processes that carry the old grant in their environment are ended"),
    ]


def _environments_can_be_read() -> bool:
    if sys.platform == "linux":
        return os.access(f"/proc/{os.getpid()}/environ", os.R_OK)
    try:
        import psutil  # noqa: F401
    except ImportError:
        return False
    return True
