"""A tree of processes: find it, stop it, end it, prove it empty.

On Linux the root of the tree is a subreaper: whatever forks twice or calls setsid comes back to it as
a child, so "no children left" is the kernel's own proof. Where there is no subreaper (macOS), and
where the root itself was killed, the environment tells: every process of a run carries its grant.
"""

from __future__ import annotations

import os
import sys
import time

from . import clock, process
from .light import signal

LINEAGE = "NIGHTLATCH_LINEAGE"  # every grant this process works under, the outermost first
DRY_RUN = "NIGHTLATCH_DRY_RUN"  # set in every process that a dry-run starts

_PR_SET_CHILD_SUBREAPER = 36

asking: set[int] = set()  # programs that this process itself has asked something, by system/command.py
_SHORTEST = 16  # characters of a grant that processes are ended by
_ANSWER = 5.0  # seconds for their answers when the tree is ended


def become_subreaper() -> None:
    """Orphans below this process become its children. Not inherited by forked children."""
    if sys.platform != "linux":
        return
    # What `ctypes.CDLL(None).prctl(…)` comes to, without importing the rest of ctypes on the path of `lock`.
    import _ctypes

    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    prctl = _ctypes.dlsym(program, "prctl")
    if _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) was refused")


def descendants(root: int) -> set[int]:
    """Every process below `root`, as far as parents tell."""
    children: dict[int, list[int]] = {}
    for pid, parent in process.parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def below_me(grant: str) -> set[int]:
    """The processes of my tree; `grant` finds those that ran away where there is no subreaper."""
    found = descendants(os.getpid())
    if sys.platform != "linux" and grant:
        found |= {pid for pid, _start in carriers(grant)[0]} - {os.getpid(), os.getppid()}
    return found


def signal_all(pids: set[int], signum: int) -> set[int]:
    """Signal own descendants: their pids cannot be reused before this process has reaped them."""
    reached = set()
    for pid in pids:
        try:
            os.kill(pid, signum)
            reached.add(pid)
        except (ProcessLookupError, PermissionError):
            pass  # it is gone, or has become another user: the proof of emptiness will tell
    return reached


def freeze(grant: str) -> set[int]:
    """Stop the whole tree below me; returns who was stopped. Again and again, until nobody new appears."""
    frozen: set[int] = set()
    while new := below_me(grant) - frozen:
        frozen |= signal_all(new, signal.SIGSTOP) | new
    return frozen


def kill_and_prove(grant: str) -> dict[int, int]:
    """End everything below me; returns, with all wait statuses, only when nothing is left."""
    ended, empty = reap_all()
    pause = 0.001
    while not empty or (sys.platform != "linux" and below_me(grant)):
        signal_all(below_me(grant), signal.SIGKILL)
        time.sleep(pause)  # a process in the middle of a system call dies when that returns
        pause = min(pause * 2, 0.05)
        more, empty = reap_all()
        ended |= more
    return ended


def kill_the_others() -> None:
    """End everything below me, but let what this process itself is asking (a renewal pushed by git) come to its end:
    killed, it would leave its lock files behind."""
    deadline = clock.now() + _ANSWER
    while (ours := set(asking)) and clock.now() < deadline:  # mostly there is none, and a look at all costs as much
        spared = ours.union(*map(descendants, ours))
        signal_all(descendants(os.getpid()) - spared, signal.SIGKILL)
        time.sleep(0.01)


def reap_all() -> tuple[dict[int, int], bool]:
    """Collect every child that has ended: ({pid: wait status}, no child is left)."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        ended[pid] = status


def carriers(grant: str, since: int = 0) -> tuple[list[tuple[int, int]], bool]:
    """Processes whose environment carries the grant, as (pid, start), and whether all could be looked at.

    None of them is older than the holder, whose start `since` is.
    """
    if len(grant) < _SHORTEST:
        return [], False  # it would be found in the environment of strangers
    wanted, me, found, complete = grant.encode(), os.getuid(), [], True
    for pid in process.pids():
        start = process.start_of(pid)
        if start is None or start < since or process.state_of(pid, start) in (process.GONE, process.ZOMBIE):
            continue
        content = process.environ(pid)
        if content is None:
            # Another user's process is not of our making; one of our own that hides its memory might be.
            complete = complete and process.owner(pid) != me
        elif wanted in content:
            found.append((pid, start))
    return found, complete


def sweep(grant: str, since: int, *, patience: float = 5.0) -> bool:
    """End every process on this machine that carries the grant; True when none is left.

    For the challenger of a holder that is gone, whose orphans the kernel gave to somebody else. A
    process that is stopped cannot fork, so all are stopped before the first is killed; two looks in a
    row must come back empty, because one look is not an instant.
    """
    deadline = time.monotonic() + patience
    clean = 0
    while clean < 2:
        found, complete = carriers(grant, since)
        if not complete:
            return False
        clean = 0 if found else clean + 1
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid, start in found:
                process.send(pid, start, signum)
        if found:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
    return True
