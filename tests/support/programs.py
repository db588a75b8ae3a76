"""Real processes for tests: the command line, and small Python programs, each with a store of its own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

NIGHTLATCH = [sys.executable, "-c", "from nightlatch.cli.main import main; main()"]
TOOL = shlex.join(NIGHTLATCH)  # for a shell


def environment(store: str, **more: str) -> dict[str, str]:
    """COLUMNS is what several test workers have instead of a terminal."""
    clean = {n: text for n, text in os.environ.items() if not n.startswith("NIGHTLATCH_") and n != "COLUMNS"}
    return {**clean, "NIGHTLATCH_STORE": store, **more}


def faketime(offset: str) -> dict[str, str]:
    """An environment whose wall clock is off; the clocks that count from boot are left alone."""
    import libfaketime

    (library,) = Path(libfaketime.__file__).parent.rglob("libfaketime.so.1")
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def midday() -> dict[str, str]:
    """An environment in whose time zone it is about noon: no day ends within a test."""
    return {"TZ": f"NOON{time.gmtime().tm_hour - 12:+d}"}


def nightlatch(store: str, *words: str, timeout: float = 120, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    env = environment(store, **more.pop("env", {}))
    return subprocess.run([*NIGHTLATCH, *words], env=env, text=True, capture_output=True, timeout=timeout, **more)


def start(store: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command line and go on."""
    return _started([*NIGHTLATCH, *words], store, **more)


def said(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line that a command which ends with `code` says on stderr."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("nightlatch: ")
    return done.stderr


def until(condition: Callable[[], T], timeout: float = 60.0) -> T:
    """Wait for a condition; its first true value is returned. The bound is for what never comes, not for what is slow."""
    deadline = time.monotonic() + timeout
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come within {timeout} s: {condition}")
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Is there such a process, and is it more than a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def state(pid: int) -> str:
    """The kernel's letter for what the process does: R, S, T (stopped), Z; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_pending(pid: int, signum: int) -> bool:
    """Has the process still to take this signal?"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(int(line.split()[1], 16) >> (signum - 1) & 1 for line in lines if line.startswith(("SigPnd", "ShdPnd")))


def carrying(mark: str) -> set[int]:
    """Every living process whose environment has `mark` in it."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                content = (entry / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in content and alive(int(entry.name)):
                found.add(int(entry.name))
    return found


def kill_all(mark: str) -> None:
    """Everything whose environment has `mark` in it: stopped first, so that nobody sees another die and acts on it."""
    clean = 0
    while clean < 2:  # one look is not an instant
        pids = carrying(mark)
        clean = 0 if pids else clean + 1
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, signum)
                except ProcessLookupError:
                    pass


def python(store: str, program: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """Start a small Python program."""
    return _started([sys.executable, "-c", program, *words], store, **more)


def _started(argv: list[str], store: str, **more: Any) -> subprocess.Popen[str]:
    """In a group of its own: what a test stops must not have the kernel hang up on all the tests, as it does in a group
    that has lost its shell."""
    env = environment(store, **more.pop("env", {}))
    group = None if more.get("start_new_session") else 0
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "process_group": group, **more}
    return subprocess.Popen(argv, env=env, text=True, **more)


class Held:
    """A `nightlatch lock` in the middle of its command, which has printed its pid."""

    COMMAND = 'echo "$$ $NIGHTLATCH_TOKEN $NIGHTLATCH_GRANT" > "$1.part"; mv "$1.part" "$1"; exec sleep 600'

    def __init__(self, store: str, folder: Path, name: str = "job", *options: str, command: str = COMMAND) -> None:
        said = folder / f"said-{os.urandom(4).hex()}"
        self.process = start(store, "lock", name, *options, "--", "sh", "-c", command, "sh", str(said))
        until(lambda: said.exists() or self.process.poll() is not None)
        assert said.exists(), self.process.communicate()
        pid, token, self.grant = said.read_text().split()
        self.command, self.token = int(pid), int(token)
        self.supervisor = self.process.pid
        (self.warden,) = children(self.supervisor)

    def end(self) -> None:
        for pid in (self.command, self.warden, self.supervisor):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.process.wait()
