"""A tree of processes: find it, stop it, end it, prove it empty.

On Linux the root of the tree is a subreaper: a process that forks twice or calls setsid becomes its child again, so "no
children left" is proof by the kernel. Where there is no subreaper (macOS), or the root itself was killed, processes are
found by their environment: every process of a run carries its grant.
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
    from collections.abc import Callable, Collection

LINEAGE = "NIGHTLATCH_LINEAGE"  # every grant this process works under, the outermost first
DRY_RUN = "NIGHTLATCH_DRY_RUN"  # set in every process that a dry-run starts

_PR_SET_CHILD_SUBREAPER = 36

own_programs: set[int] = set()  # pids of the programs that this process runs by system/program.py
_SHORTEST_GRANT = 16  # characters: a shorter grant would be found in unrelated environments
_OWN_PROGRAMS_TIMEOUT = 5.0  # seconds that own programs have to end by themselves when the tree is ended


def become_subreaper() -> None:
    """From now on orphans below this process become its children. Not inherited by forked children."""
    if sys.platform != "linux":
        return
    if light.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) was refused")


def strangers() -> set[int]:
    """The children that this process has before it started any: those of a shell that called `exec`, as in
    `server & exec nightlatch run …`. They are not part of the tree."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case, found by one system call
    except AttributeError:
        pass  # macOS has no waitid in Python before 3.13
    return process.own_children()


def descendants(root: int, spared: Collection[int] = ()) -> set[int]:
    """Every process below `root`, by parent pids, except those `spared` and the processes below them."""
    children: dict[int, list[int]] = {}
    for pid, parent in process.parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found and pid not in spared:
                found.add(pid)
                todo.append(pid)
    return found


def below_me(grant: str, spared: Collection[int] = ()) -> set[int]:
    """The processes below this one; `grant` finds those that escaped where there is no subreaper."""
    found = descendants(os.getpid(), spared)
    if sys.platform != "linux" and grant:
        found |= {pid for pid, _start in carriers(grant)} - {os.getpid(), os.getppid()}
    return found


def signal_all(pids: set[int], signum: int) -> set[int]:
    """Signal descendants of this process, whose pids cannot be reused before it reaps them; returns those reached."""
    reached = set()
    for pid in pids:
        try:
            os.kill(pid, signum)
            reached.add(pid)
        except (ProcessLookupError, PermissionError):
            pass  # it is gone, or runs as another user now: the proof that the tree is empty decides
    return reached


def freeze(grant: str) -> set[int]:
    """Stop the whole tree below this process; returns the stopped pids. Repeats until no new process appears."""
    frozen: set[int] = set()
    while new := below_me(grant) - frozen:
        frozen |= signal_all(new, signal.SIGSTOP) | new
    return frozen


def kill_and_prove(grant: str, spared: set[int]) -> dict[int, int]:
    """Kill everything below this process except the trees of `spared`; returns all wait statuses, and only when nothing
    is left. A spared process that has ended is taken out of `spared`: its pid can be used again."""
    ended: dict[int, int] = {}
    pause, clean = 0.001, 0
    while True:
        more, childless = reap_all()
        ended |= more
        spared.difference_update(more)
        if childless and sys.platform == "linux":
            return ended  # the kernel's own proof
        rest = below_me(grant, spared)
        signal_all(rest, signal.SIGKILL)
        clean = 0 if rest else clean + 1
        # With spared children the kernel's proof is not possible, so look at all processes instead. Twice: one look can
        # miss a process that forks and ends meanwhile.
        if not rest and (childless or (spared and clean == 2)):
            return ended
        time.sleep(pause)  # a process in the middle of a system call dies when that returns
        pause = min(pause * 2, 0.05)


def kill_the_others(spared: set[int]) -> None:
    """Kill everything below this process except its own programs (such as a git push for a renewal), and wait for these
    to end by themselves: killed, they would leave lock files behind."""
    deadline = clock.now() + _OWN_PROGRAMS_TIMEOUT
    # Usually there are none, and nothing is done here: `kill_and_prove` follows and kills everything anyway.
    while own_programs and clock.now() < deadline:
        signal_all(descendants(os.getpid(), own_programs | spared), signal.SIGKILL)
        time.sleep(0.01)


def kill_since(before: set[int]) -> None:
    """Kill everything below this process except the pids `before` and its own programs."""
    while rest := descendants(os.getpid(), set(own_programs)) - before:
        signal_all(rest, signal.SIGKILL)
        time.sleep(0.002)


def reap_all() -> tuple[dict[int, int], bool]:
    """Reap every child that has ended: ({pid: wait status}, is no child left?)."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        ended[pid] = status


def carriers(grant: str) -> list[tuple[int, int]]:
    """Processes whose environment carries the grant, as (pid, start)."""
    return Look(grant, 0).found


class Look:
    """One look at every process of this machine, to find those that work under a grant.

    A look takes time: a process that ends before it is examined may have started another. So newer processes are
    examined too, until every listed one was still alive when it was examined: then none was missed.
    """

    def __init__(
        self, grant: str, since: int, *, locked: bool = False, stop: bool = False, patience: float = 5.0
    ) -> None:
        """`since`: the holder's start time; none of its processes is older. `locked`: also find processes that have the
        lock which the tree inherits. `stop`: stop each process found, so that it cannot fork."""
        self._grant, self._since, self._locked, self._stop = grant, since, locked, stop
        self.found: list[tuple[int, int]] = []
        self.unreadable: list[int] = []  # processes of our user whose environment may not be read
        self.complete = False
        if len(grant) < _SHORTEST_GRANT:
            return
        deadline = time.monotonic() + patience
        visited: set[int] = set()
        while not self.complete and time.monotonic() < deadline:
            listed = [pid for pid in process.pids() if pid not in visited]
            visited.update(listed)
            self.complete = all([self._examine(pid) for pid in listed])
            if not self.complete:
                # Examine the newest pids directly: a process can start the next one faster than all are listed.
                newer = range(max(visited) + 1, process.newest_id() + 1)
                visited.update([pid for pid in newer if self._examine(pid)])

    def _examine(self, pid: int) -> bool:
        """Add the process to what was found, if it belongs there; False if it ended before it could be examined."""
        start = process.start_of(pid)
        if start is None or process.state_of(pid, start) in (process.GONE, process.ZOMBIE):
            return False
        if start < self._since:
            return True
        content = process.environ(pid)
        if content is None:
            # Another user's process is not part of the tree; one of our user that hides its memory might be.
            if process.owner(pid) == os.getuid():
                self.unreadable.append(pid)
        elif self._grant.encode() in content or (self._locked and process.has_locked_file(pid, self._grant + TREE)):
            self.found.append((pid, start))
            if self._stop:
                process.send(pid, start, signal.SIGSTOP)
        return content != b"" or process.state_of(pid, start) not in (process.GONE, process.ZOMBIE)


def sweep(grant: str, since: int, locked: Callable[[], bool] = bool, *, patience: float = 5.0) -> Look:
    """Kill every process on this machine that carries the grant or, if `locked()`, has its lock; returns the last look.
    No process is left if that look is complete, found none, and could read all.

    For a challenger: the holder is gone, and its orphans have another parent now.
    """
    deadline = time.monotonic() + patience
    clean = 0
    while True:
        look = Look(grant, since, locked=locked(), stop=True, patience=deadline - time.monotonic())
        for pid, start in look.found:
            process.send(pid, start, signal.SIGKILL)
        clean = 0 if look.found else clean + 1
        # Twice: if pids wrap around while the list is read, one look can miss a process.
        if clean == 2 or time.monotonic() > deadline:
            return look
        if look.found:
            time.sleep(0.002)
