"""Programs that stop in the middle, and continue on request."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable

from nightlatch.system import filelock, process
from tests.support import programs


def until_stopped(pid: int) -> None:
    start = process.start_of(pid)
    assert start is not None
    programs.until(lambda: process.state_of(pid, start) == process.STOPPED)


def go_on(stopped: subprocess.Popen[str]) -> int:
    """Continue it; its exit code. It may have been ended meanwhile."""
    stopped.send_signal(signal.SIGCONT)
    return stopped.wait(60)


def sealed_after_a_look(seal: Callable[[], object], slow: subprocess.Popen[str]) -> None:
    """Seal while `slow` is in the lock: the waiting seal has had time to look at it, and lets it finish."""
    sealing = threading.Thread(target=seal)
    sealing.start()
    time.sleep(filelock.LOOK_AFTER + 1)
    assert slow.poll() is None and sealing.is_alive()
    slow.communicate("go on\n", timeout=60)
    assert slow.returncode == 0
    sealing.join()
