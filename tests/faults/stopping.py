"""Programs that stop in the middle, and go on when they are told to."""

from __future__ import annotations

import signal
import subprocess

from nightlatch.system import process
from tests import programs


def until_stopped(pid: int) -> None:
    start = process.start_of(pid)
    assert start is not None
    programs.until(lambda: process.state_of(pid, start) == process.STOPPED)


def go_on(stopped: subprocess.Popen[str]) -> int:
    """Continue it; its exit code. It may have been ended meanwhile."""
    stopped.send_signal(signal.SIGCONT)
    return stopped.wait(30)
