"""Where processes hang that should have ended: in the kernel, thread by thread, and in Python."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

TRACEBACKS = {"PYTHONFAULTHANDLER": "1"}  # for a program's environment: SIGABRT makes it print where its threads are

_FILES = ("stat", "wchan", "syscall", "stack")  # the last two are root's


def where(pids: Iterable[int]) -> str:
    """A line for each thread. Ends the processes by SIGABRT, so that they print their own stacks on stderr."""
    threads = sorted(task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*"))
    found = [" ".join([f"thread {task.name}:", *(_read(task / name) for name in _FILES)]) for task in threads]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGABRT)
        except ProcessLookupError:
            pass
    return "\n".join(found)


def _read(file: Path) -> str:
    try:
        return "  ".join(file.read_text().splitlines())
    except OSError as error:
        return f"({file.name}: {error.strerror})"
