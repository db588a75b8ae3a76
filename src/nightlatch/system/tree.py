"""A tree of processes: find it, stop it, end it, prove it empty.

On Linux the root of the tree is a subreaper: whatever forks twice or calls setsid comes back to it as
a child, so "no children left" is the kernel's own proof. Where there is no subreaper (macOS), and
where the root itself was killed, the environment tells: every process of a run carries its grant.
"""

from __future__ import annotations

import os
import sys
import time

from . import clock, light, process
from .lifetime import TREE
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LINEAGE = "NIGHTLATCH_LINEAGE"  # every grant this process works under, the outermost first
DRY_RUN = "NIGHTLATCH_DRY_RUN"  # set in every process that a dry-run starts

_PR_SET_CHILD_SUBREAPER = 36

own_programs: set[int] = set()  # programs that this process itself has asked something, by system/program.py
_SHORTEST = 16  # characters of a grant that processes are ended by
_ANSWER = 5.0  # seconds for their answers when the tree is ended


def become_subreaper() -> None:
    """Orphans below this process become its children. Not inherited by forked children."""
    if sys.platform != "linux":
        return
    if light.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
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
        found |= {pid for pid, _start in carriers(grant)} - {os.getpid(), os.getppid()}
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
    while (
        ours := set(own_programs)
    ) and clock.now() < deadline:  # mostly there is none, and a look at all costs as much
        spared = ours.union(*map(descendants, ours))
        signal_all(descendants(os.getpid()) - spared, signal.SIGKILL)
        time.sleep(0.01)


def kill_since(before: set[int]) -> None:
    """End everything below me that is not among `before`, nor of a program that this process itself runs."""
    while True:
        ours = set(own_programs)
        rest = descendants(os.getpid()) - before - ours.union(*map(descendants, ours))
        if not rest:
            return
        signal_all(rest, signal.SIGKILL)
        time.sleep(0.002)


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


def carriers(grant: str, since: int = 0) -> list[tuple[int, int]]:
    """Processes whose environment carries the grant, as (pid, start). None of them is older than `since`."""
    return Look(grant, since).found


class Look:
    """One look at every process of this machine, for those that work under a grant.

    A look is not an instant: who was gone before it was looked at may have handed on to a child, and that to the next.
    So those that came since are looked at too, until nobody was gone: then nobody was missed.
    """

    def __init__(
        self, grant: str, since: int, *, locked: bool = False, stop: bool = False, patience: float = 5.0
    ) -> None:
        """`since`: the holder's start; none of its processes is older. `locked`: those that have the lock which the
        tree inherits count too. `stop` each that is found: a process that is stopped cannot fork."""
        self._grant, self._since, self._locked, self._stop = grant, since, locked, stop
        self.found: list[tuple[int, int]] = []
        self.unreadable: list[int] = []  # our own user's, and they may not be looked at
        self.complete = False
        if len(grant) < _SHORTEST:
            return  # it would be found in the environment of strangers
        deadline = time.monotonic() + patience
        seen: set[int] = set()
        while not self.complete and time.monotonic() < deadline:
            listed = [pid for pid in process.pids() if pid not in seen]
            seen.update(listed)
            self.complete = all([self._examine(pid) for pid in listed])
            if not self.complete:
                # Straight at the newest: a list of all takes longer to read than a process needs to hand on.
                newer = range(max(seen) + 1, process.newest() + 1)
                seen.update([pid for pid in newer if self._examine(pid)])

    def _examine(self, pid: int) -> bool:
        """False if it had ended before it could be looked at."""
        start = process.start_of(pid)
        if start is None or process.state_of(pid, start) in (process.GONE, process.ZOMBIE):
            return False
        if start < self._since:
            return True
        content = process.environ(pid)
        if content is None:
            # Another user's process is not of our making; one of our own that hides its memory might be.
            if process.owner(pid) == os.getuid():
                self.unreadable.append(pid)
        elif self._grant.encode() in content or (self._locked and process.locked_files(pid, self._grant + TREE)):
            self.found.append((pid, start))
            if self._stop:
                process.send(pid, start, signal.SIGSTOP)
        return content != b"" or process.state_of(pid, start) not in (process.GONE, process.ZOMBIE)


def sweep(grant: str, since: int, locked: Callable[[], bool] = bool, *, patience: float = 5.0) -> Look:
    """End every process on this machine that carries the grant, or the lock that `locked` tells of; returns the last
    look. Nobody is left if that is complete, has found nobody, and nobody was unreadable.

    For the challenger of a holder that is gone, whose orphans the kernel gave to somebody else.
    """
    deadline = time.monotonic() + patience
    clean = 0
    while True:
        look = Look(grant, since, locked=locked(), stop=True, patience=deadline - time.monotonic())
        for pid, start in look.found:
            process.send(pid, start, signal.SIGKILL)
        clean = 0 if look.found else clean + 1
        # Twice: should the numbers start again from the lowest while the list is read, one look can miss somebody.
        if clean == 2 or time.monotonic() > deadline:
            return look
        if look.found:
            time.sleep(0.002)
