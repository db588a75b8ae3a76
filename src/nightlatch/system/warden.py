"""The warden, seen from its supervisor: a small process above the command, which ends the tree on time.

    supervisor  →  warden  →  command and all it starts
    (lease)        (warden_process)

It is forked before any thread exists, obeys only the pipe from its supervisor, and gets absolute times on the
suspend-proof clock. When those pass without an order, or the supervisor is gone (end of file), it ends the tree, proves
it empty, and only then exits; that frees the lifetime lock. The supervisor knows the times too: it wakes a warden that
is stopped, or kills it and does its work. A parent-death signal would not do: it does not reach grandchildren, and it
fires when the *thread* that started the child ends.
"""

from __future__ import annotations

import os
import select

from . import clock, tree
from .light import signal
from .reports import KINDS, Ended, Started, WardenDied
from .warden_messages import END_SIGNALS, LEFTOVERS, LOST, OVERDUE, SIGNALLED, TIMED_OUT, receive, send
from .warden_process import WardenProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.tenure import Tenure
    from .lifetime import Lifetime
    from .reports import Report

__all__ = ["LEFTOVERS", "LOST", "OVERDUE", "SIGNALLED", "TIMED_OUT", "Warden"]

_ANSWER = 3.0  # seconds that a warden may take longer than it should before its supervisor does its work


class Warden:
    """The supervisor's end. Made before the first thread; `start` comes when the lease is held."""

    def __init__(
        self,
        grant: str,
        streams: tuple[int, int] | None = None,
        *,
        lifetime: Lifetime | None = None,
        deaf: bool = False,
    ) -> None:
        """`streams`: what becomes the command's standard output and error, if not our own. `lifetime`: encloses the
        tree, so that it can be proven gone when we are killed. `deaf`: a signal that asks the command to end waits,
        blocked, until that is ready to hear it, and unblocks it."""
        tree.become_subreaper()  # a warden that is killed leaves its children to us
        orders_in, self._orders = os.pipe()
        command_in, self._command = os.pipe()
        self._reports, reports_out = os.pipe()
        os.set_blocking(self._orders, False)
        self._answers = select.poll()
        self._answers.register(self._reports, select.POLLIN)
        self._grant = grant
        self._child = 0
        self._grace = 0.0
        self._due: dict[str, tuple[float, float]] = {}  # why the tree is to end → when, and how long that may take
        self._noticed: dict[str, float] = {}  # when it was seen that this time has come: the machine may have slept
        self._statuses: dict[int, int] = {}
        self._dismissed = False
        # A Ctrl-C in between would be lost where a fork closes databases, and would end a warden that is not ready.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            os.close(self._command)
            os.close(self._reports)
            mask = before if not deaf else {*before, *END_SIGNALS}
            WardenProcess(orders_in, command_in, reports_out, grant, streams, lifetime, mask).live()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(orders_in)
        os.close(command_in)
        os.close(reports_out)

    # ── orders ──

    def keep(self, tenure: Tenure) -> None:
        """Until when the lease is sure, and so what the command may do: freeze it, end it, no later than that."""
        self._order("tenure", tenure.freeze_at, tenure.end_at, tenure.deadline)

    def ask_to_end(self, why: str, grace: float, signum: int = signal.SIGTERM) -> None:
        # When the lease is lost another may have it by the end of the grace: there is no time for an answer.
        self._expect(why, clock.now(), grace + (_ANSWER if why != LOST else 0.0))
        self._order("end", why, grace, int(signum))

    def limit(self, at: float) -> None:
        """The run's deadline: kept by the warden, so that a supervisor that hangs does not lift it."""
        self._expect(TIMED_OUT, at, self._grace + _ANSWER)
        self._order("limit", at)

    def bound(self, at: float) -> None:
        """By when what the command does right now is over, or the command is; inf when it is. For the same reason."""
        self._expect(OVERDUE, at, _ANSWER)
        self._order("bound", at)

    def beside(self, beside: bool) -> None:
        """Does the supervisor itself have something at work under the grant? Then it must not outlive it either."""
        self._order("beside", beside)

    def pass_on(self, signum: int) -> None:
        self._order("signal", int(signum))

    def _order(self, *order: Any) -> None:
        """Small messages go through a pipe whole, so threads and signal handlers may all send."""
        try:
            send(self._orders, *order)
        except BrokenPipeError:
            pass  # it is gone; `report` will say so
        except BlockingIOError:
            pass  # it has been stopped for so long that the pipe is full; `report` keeps the time

    def start(self, argv: list[str], env: dict[str, str], *, cwd: str = "", grace: float) -> None:
        self._grace = grace
        if TIMED_OUT in self._due:
            self._expect(TIMED_OUT, self._due[TIMED_OUT][0], grace + _ANSWER)
        self._order("start", cwd, grace)
        try:
            send(self._command, argv, env)  # long, and so in a pipe of its own: a renewal could get in between
        except BrokenPipeError:
            pass  # as above

    # ── reports ──

    def fileno(self) -> int:
        """Readable when there is a report."""
        return self._reports

    def report(self, seconds: float = 0.0) -> Report | None:
        """The next report, or None if there is none yet; to be asked for about once a second, and no more after the
        last. If the warden does not end the tree in time, this does, and reports as it would have done."""
        if self._answers.poll(seconds * 1000):
            received = receive(self._reports)
            report: Report = KINDS[received[0]](**received[1]) if received else WardenDied()
            if isinstance(report, Started):
                self._child = report.pid
            elif isinstance(report, WardenDied):
                self.dismiss()  # and with it whatever it left behind
            return report
        why = self._silent()
        if not why:
            return None
        self.dismiss()
        # Without its word nobody knows whether the command was started.
        return Ended(status=self._statuses.get(self._child), why=why) if self._child else WardenDied()

    def _silent(self) -> str:
        """Why the tree should have ended by now, if the warden does not see to it.

        A warden that is stopped is woken as soon as it has something to do.
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
        """End it, and whatever it left behind if it was killed. After its last report nothing is left."""
        if self._dismissed:
            return
        self._dismissed = True  # the pipe stays open: the keeper's thread may be about to tell it something
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
        os.waitpid(self.pid, 0)
        tree.kill_the_others()
        self._statuses = tree.kill_and_prove(self._grant)

    def close(self) -> None:
        """Dismissed, and nobody is left who could tell it anything."""
        os.close(self._orders)
        os.close(self._command)
        os.close(self._reports)
