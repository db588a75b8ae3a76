"""Real processes for tests: the command line, and small Python programs, each with a store of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

NIGHTLATCH = [sys.executable, "-c", "from nightlatch.cli.main import main; main()"]


def environment(store: str, **more: str) -> dict[str, str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
    return {**clean, "NIGHTLATCH_STORE": store, **more}


def nightlatch(store: str, *words: str, timeout: float = 60, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    env = environment(store, **more.pop("env", {}))
    return subprocess.run([*NIGHTLATCH, *words], env=env, text=True, capture_output=True, timeout=timeout, **more)


def start(store: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command line and go on."""
    env = environment(store, **more.pop("env", {}))
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([*NIGHTLATCH, *words], env=env, text=True, **more)


def until(condition: Callable[[], T], timeout: float = 20.0) -> T:
    """Wait for a condition; its first true value is returned."""
    deadline = time.monotonic() + timeout
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain for {condition}")
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Is there such a process, and is it more than a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
