"""The warden, seen from its supervisor: a small process above the command, which ends the tree on time.

    supervisor  →  warden  →  command and all it starts
    (lease)        (warden_process)

The warden is forked before any thread exists, obeys only the pipe from its supervisor, and gets absolute times on the
suspend-proof clock. When one passes without an order, or the supervisor is gone (end of file), it ends the tree, proves
it empty, and only then exits, which frees the lifetime lock. The supervisor knows the times too: it wakes a warden that
is stopped, or kills it and does its work. A parent-death signal would not do: it does not reach grandchildren, and it
fires when the *thread* that started the child ends.
"""

from __future__ import annotations

import os
import select

from . import cgroup, clock, process, tree
from .light import signal
from .warden_messages import (
    END_SIGNALS,
    KINDS,
    LEFTOVERS,
    LOST,
    OVERDUE,
    SIGNALLED,
    TIMED_OUT,
    Ended,
    Report,
    Started,
    WardenDied,
    receive,
    send,
)
from .warden_process import WardenProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Collection
    from typing import Any

    from ..core.tenure import Tenure
    from .lifetime import Lifetime
    from .standby import Standby

__all__ = ["LEFTOVERS", "LOST", "OVERDUE", "SIGNALLED", "TIMED_OUT", "Warden"]

_MAX_LATENESS = 3.0  # seconds; if a warden is later than that, its supervisor does the warden's work

standby: Standby | None = None  # set in a process that does one run after the other: its frugal wardens stand by


class Warden:
    """The supervisor's side. Create it before the first thread; call `start` when the lease is held."""

    def __init__(
        self,
        grant: str,
        streams: tuple[int, int] | None = None,
        *,
        lifetime: Lifetime | None = None,
        blocked: bool = False,
        frugal: bool = False,
    ) -> None:
        """`streams`: the command's standard output and error, if not our own. `lifetime`: has the tree inherit a lock,
        by which it can be proven gone if we are killed. `blocked`: start the command with END_SIGNALS blocked; it
        unblocks them when its handlers are installed. `frugal`: start it with less CPU time, but up to 20 ms later."""
        self._standby = standby if frugal and lifetime else None
        self._strangers, self._lifetime = tree.strangers(), lifetime
        if self._standby:
            self._strangers.discard(self._standby.pid)
        tree.become_subreaper()  # the children of a killed warden come to us
        orders_in, self._orders = os.pipe()
        command_in, self._command = os.pipe()
        self._reports, reports_out = os.pipe()
        os.set_blocking(self._orders, False)
        self._answers = select.poll()
        self._answers.register(self._reports, select.POLLIN)
        self._grant = grant
        self._child = 0
        self._grace = 0.0
        self._due: dict[str, tuple[float, float]] = {}  # why the tree must end → when, and how long that may take
        self._noticed: dict[str, float] = {}  # why → when we saw that its time had come; later if the machine slept
        self._statuses: dict[int, int] = {}
        self._dismissed = self._stands_by = False
        self._channel: socket.socket | None = None
        pipes = orders_in, command_in, reports_out
        # Blocked during the fork: a Ctrl-C would be lost in Python's fork hooks, or end a warden that is not ready.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
        mask = before if not blocked else {*before, *END_SIGNALS}
        assigned = None
        if self._standby and lifetime:
            assigned = self._standby.assign(pipes, streams or (), lifetime, mask)
        if assigned:
            self.pid, self._channel = assigned
        else:
            self.pid = self._fork(pipes, streams, mask, frugal)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for end in pipes:
            os.close(end)

    def _fork(
        self, pipes: tuple[int, int, int], streams: tuple[int, int] | None, mask: Collection[int], frugal: bool
    ) -> int:
        theirs = None
        if self._standby:
            try:
                self._channel, theirs = self._standby.channel()
            except OSError:
                pass  # no descriptor is left, or no such sockets here: then this warden ends with its tree
        pid = os.fork()
        if pid == 0:
            for fd in (self._orders, self._command, self._reports):
                os.close(fd)
            WardenProcess(*pipes, self._grant, streams, self._lifetime, mask, frugal, theirs).live()
        if theirs:
            theirs.close()
        return pid

    # ── orders ──

    def keep(self, tenure: Tenure) -> None:
        """Renew the times at which the warden freezes and ends the tree."""
        self._order("tenure", tenure.freeze_at, tenure.end_at, tenure.deadline)

    def ask_to_end(self, why: str, grace: float, signum: int = signal.SIGTERM) -> None:
        # After a loss, once the grace is over, another may hold the lease: there is no time to wait for the warden.
        self._expect(why, clock.now(), grace + (_MAX_LATENESS if why != LOST else 0.0))
        self._order("end", why, grace, int(signum))

    def limit(self, at: float) -> None:
        """Set the run's deadline. The warden keeps it, so it holds even if the supervisor hangs."""
        self._expect(TIMED_OUT, at, self._grace + _MAX_LATENESS)
        self._order("limit", at)

    def bound(self, at: float) -> None:
        """Set the deadline for what the command is doing right now; inf when that is done. Kept as `limit` is."""
        self._expect(OVERDUE, at, _MAX_LATENESS)
        self._order("bound", at)

    def supervisor_works(self, works: bool) -> None:
        """Say whether the supervisor itself runs programs under the grant, which must not outlive it either."""
        self._order("supervisor_works", works)

    def pass_on(self, signum: int) -> None:
        self._order("signal", int(signum))

    def _order(self, *order: Any) -> None:
        """Small writes to a pipe are atomic, so threads and signal handlers may all send."""
        try:
            send(self._orders, *order)
        except BrokenPipeError:
            pass  # the warden is gone; `report` will say so
        except BlockingIOError:
            pass  # the warden was stopped for so long that the pipe is full; `report` keeps the deadlines instead

    def start(self, argv: list[str], env: dict[str, str], *, cwd: str = "", grace: float) -> None:
        self._grace = grace
        if TIMED_OUT in self._due:
            self._expect(TIMED_OUT, self._due[TIMED_OUT][0], grace + _MAX_LATENESS)
        self._order("start", cwd, grace)
        try:
            send(self._command, argv, env)  # a separate pipe: a renewal could get into the middle of a long write
        except BrokenPipeError:
            pass  # the warden is gone; `report` will say so

    # ── reports ──

    def fileno(self) -> int:
        """Readable when there is a report."""
        return self._reports

    def report(self, seconds: float = 0.0) -> Report | None:
        """The next report, or None if there is none within `seconds`. Call it about once a second, and not after the
        last report. If the warden does not end the tree in time, this does, and returns the warden's overdue report."""
        if self._answers.poll(seconds * 1000):
            received = receive(self._reports)
            report: Report = KINDS[received[0]](**received[1]) if received else WardenDied()
            if isinstance(report, Started):
                self._child = report.pid
            elif isinstance(report, Ended):
                self._stands_by = report.stands_by
            elif isinstance(report, WardenDied):
                self.dismiss()  # ends what the warden left behind
            return report
        why = self._overdue()
        if not why:
            return None
        self.dismiss()
        # Without a report it is not known whether the command was started.
        return Ended(status=self._statuses.get(self._child), why=why) if self._child else WardenDied()

    def _overdue(self) -> str:
        """Why the tree should have ended by now, if the warden has not ended it; "" if nothing is overdue.

        Wakes a stopped warden as soon as it has something to do.
        """
        now = clock.now()
        for why, (at, lasting) in list(self._due.items()):
            if now < at:
                continue
            if now >= self._noticed.setdefault(why, now) + lasting:
                return why
            if not self._dismissed:
                os.kill(self.pid, signal.SIGCONT)
        return ""

    def _expect(self, why: str, at: float, lasting: float) -> None:
        self._due[why] = at, lasting
        if at == float("inf"):
            self._noticed.pop(why, None)

    def dismiss(self) -> None:
        """Kill the warden, and what it left behind if it was killed before. After its last report nothing is left. One
        that stands by is kept, if nothing else is to be killed."""
        if self._dismissed:
            return
        self._dismissed = True  # the pipe stays open: the keeper's thread may be about to send an order
        if self._standby and self._channel:
            if self._stands_by and process.own_children() == self._strangers | {self.pid}:
                self._standby.keep(self.pid, self._channel)
                return
            self._channel.close()
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
        os.waitpid(self.pid, 0)
        tree.kill_the_others(self._strangers)
        if self._strangers and self._lifetime:
            # With strangers among our children, `kill_and_prove` only looks at processes, and may miss one that keeps
            # forking.
            cgroup.end(self._lifetime.cgroup, _MAX_LATENESS)
        self._statuses = tree.kill_and_prove(self._grant, self._strangers)

    def close(self) -> None:
        """Close the pipes, after `dismiss` and after the last thread that could send an order."""
        os.close(self._orders)
        os.close(self._command)
        os.close(self._reports)
