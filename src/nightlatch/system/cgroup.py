"""A cgroup for each run: where one can be made, it is the strongest proof that nothing of a tree is left.

A process cannot leave it by clearing its environment, closing descriptors, hiding its memory or forking quickly; only
root, or the owner of the parent cgroup, can move a process out. Needs cgroup v2 with `cgroup.kill` (Linux 5.14), and
the right to make folders in the cgroup of this process. Root has it, and a user to whom that cgroup is delegated.
"""

from __future__ import annotations

import os
import time

from . import process
from .durable import is_older
from .light import signal

_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")  # the second where cgroup v1 is mounted too
_PREFIX = "nightlatch-"


def own() -> str:
    """The folder of the cgroup that this process is in; "" where there is no cgroup v2."""
    try:
        with open("/proc/self/cgroup", "rb") as file:
            paths = [os.fsdecode(line[3:]) for line in file.read().splitlines() if line.startswith(b"0::")]
    except OSError:
        return ""
    for mount in _MOUNTS if paths else ():
        if os.path.exists(f"{mount}/cgroup.procs"):
            return (mount + paths[0]).rstrip("/")
    return ""


def make(name: str) -> str:
    """Make a cgroup below our own; returns its folder, "" if that is not possible here."""
    parent = own()
    if not parent:
        return ""
    folder = f"{parent}/{_PREFIX}{name}"
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        return ""  # not delegated to us, read-only, or at its limit
    if os.path.exists(f"{folder}/cgroup.kill"):
        return folder
    remove(folder)
    return ""


def join(folder: str) -> bool:
    """Move this process into the cgroup; everything that it starts from now on is in it too. False: not possible."""
    return _write(f"{folder}/cgroup.procs", b"0")


def possible() -> bool:
    folder = make(f"probe-{os.getpid()}")
    remove(folder)
    return bool(folder)


def is_empty(folder: str) -> bool:
    """Are there no processes in the cgroup, nor in those below it? A cgroup that was removed was empty."""
    try:
        with open(f"{folder}/cgroup.events", "rb") as file:
            return b"populated 0" in file.read()
    except FileNotFoundError:
        return bool(own())  # if cgroups are not visible from here, nothing is known
    except OSError:
        return False


def members(folder: str) -> list[int]:
    """The processes in the cgroup and in those below it."""
    found: list[int] = []
    for place, _, _ in os.walk(folder):
        try:
            with open(f"{place}/cgroup.procs", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue  # removed meanwhile
    return found


def end(folder: str, patience: float) -> bool:
    """Kill everything in the cgroup, by one order to the kernel; True when it is proven empty. False for ""."""
    if not folder:
        return False
    deadline, pause = time.monotonic() + patience, 0.0005
    while not is_empty(folder):
        if not _write(f"{folder}/cgroup.kill", b"1") or time.monotonic() > deadline:
            return is_empty(folder)
        _kill_headless(folder)
        time.sleep(pause)  # a process in the middle of a system call dies when that returns
        pause = min(pause * 2, 0.05)
    return True


def _kill_headless(folder: str) -> None:
    """Kill processes whose first thread has ended before the others: `cgroup.kill` signals only the first."""
    for pid in members(folder):
        start = process.start_of(pid)
        if start is not None and pid in members(folder):
            process.send(pid, start, signal.SIGKILL)


def remove(folder: str) -> None:
    """Remove the cgroup, and those that nested runs and the command left in it. A cgroup that has processes stays."""
    if not folder:
        return
    try:
        try:
            os.rmdir(folder)
        except OSError:
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    remove(entry.path)
            os.rmdir(folder)
    except OSError:
        pass  # it is gone, or has processes


def sweep(older_than: float) -> None:
    """Remove cgroups that killed holders left, if older than `older_than` seconds. One that has processes stays."""
    parent = own()
    for entry in os.scandir(parent) if parent else ():
        if entry.name.startswith(_PREFIX) and is_older(entry, older_than):
            remove(entry.path)


def _write(path: str, content: bytes) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, content)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
