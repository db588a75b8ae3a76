"""Keeping the machine awake while a process lives."""

from __future__ import annotations

import os
import sys

from ..errors import UsageError


def keep_awake(pid: int) -> int:
    """Start a program that keeps the machine from sleeping until process `pid` is gone; returns the program's pid.

    The program watches `pid` itself, so a run that is killed does not keep the machine awake for ever.
    """
    if sys.platform == "darwin":
        argv = ["caffeinate", "-i", "-w", str(pid)]
    else:
        reason = ["--who=nightlatch", "--why=a run is under way", "--what=sleep:idle", "--mode=block"]
        argv = ["systemd-inhibit", *reason, "tail", f"--pid={pid}", "-f", "/dev/null"]
    try:
        return os.posix_spawnp(argv[0], argv, dict(os.environ))
    except FileNotFoundError:
        raise UsageError(f"--keep-awake needs {argv[0]}, which is not on this machine: drop --keep-awake") from None
