"""The warden: a small process between the supervisor and the command, which ends the tree on time.

    supervisor  →  warden  →  command and all it starts
    (lease)        (this)

It is forked before any thread exists, obeys only the pipe from its supervisor, and is told absolute
times on the suspend-proof clock. When those pass without word, or the supervisor is gone (end of
file), it ends the tree, proves it empty, and only then exits; with it goes the lifetime lock. Its
supervisor knows the times too: a warden that is stopped is woken, or killed and its work done. A
parent-death signal would not do: it does not reach grandchildren, and it fires when the *thread* that
started the child ends.
"""

from __future__ import annotations

import errno
import marshal
import os
import select

from . import cgroup, clock, tree
from .light import signal
from .reports import KINDS, Ended, NotStarted, Started, WardenDied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, NoReturn

    from ..core.tenure import Tenure
    from .lifetime import Lifetime
    from .reports import Report

# Why the tree was ended. Loss of the lease and of the supervisor leave no time for manners.
LOST, ORPHANED, ASKED, LEFTOVERS, FAILED, TIMED_OUT = "lost", "orphaned", "asked", "leftovers", "failed", "timed-out"
OVERDUE = "overdue"

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # it to end
_NOT_FOR_US = (*ASKING, signal.SIGQUIT, signal.SIGTTOU)

_HEADER = 4
_ANSWER = 3.0  # seconds that a warden may take longer than it should, before its supervisor does its work


def _send(fd: int, *message: Any) -> None:
    body = marshal.dumps(message)
    data = memoryview(len(body).to_bytes(_HEADER, "big") + body)
    while data:
        data = data[os.write(fd, data) :]


def _receive(fd: int) -> Any:
    """The next message; None at end of file."""
    header = _read(fd, _HEADER)
    body = _read(fd, int.from_bytes(header, "big")) if header else b""
    return marshal.loads(body) if body else None  # noqa: S302 - both ends are one program, forked


def _read(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data


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
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            os.close(self._command)
            os.close(self._reports)
            mask = before if not deaf else {*before, *ASKING}
            _Loop(orders_in, command_in, reports_out, grant, streams, lifetime, mask).live()
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
            _send(self._orders, *order)
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
            _send(self._command, argv, env)  # long, and so in a pipe of its own: a renewal could get in between
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
            received = _receive(self._reports)
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


def _group_of_command() -> int:
    """The supervisor's, so that a terminal's Ctrl-C and job control reach the command; 0, one of its own, where there
    is no terminal.

    There (cron, setsid, CI) nobody's child would hold the supervisor's group together but the command: at its end the
    kernel would send SIGHUP, and SIGCONT, to the whole group as soon as one process in it is stopped.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return 0
    return os.getpgrp()


class _Loop:
    """The warden's own life."""

    def __init__(
        self,
        orders: int,
        command: int,
        reports: int,
        grant: str,
        streams: tuple[int, int] | None,
        lifetime: Lifetime | None,
        mask: Collection[int],
    ) -> None:
        self.orders, self.command, self.reports = orders, command, reports
        self.grant, self.streams, self.lifetime, self.mask = grant, streams, lifetime, mask
        self.child = 0
        self.started = False
        self.status: int | None = None
        self.frozen: set[int] = set()
        self.asked: set[int] = set()  # whom we have asked to end
        self.signum = int(signal.SIGTERM)
        self.why = ""
        self.left = 0
        self.beside = False
        self.grace = 10.0
        self.group = _group_of_command()
        self.defaults = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores the last two
        never = float("inf")
        self.freeze_at = self.end_at = self.deadline = self.kill_at = self.limit_at = self.bound_at = never

    def live(self) -> NoReturn:
        code = 70
        try:
            self._prepare()
            while not self._finished():
                self._wait()
                self._keep_time()
            if self.beside and self.why == ORPHANED:
                tree.sweep(self.grant, 0)
            self._report(Ended(status=self.status, why=self.why, left=self.left, started=self.started))
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may escape into the code that forked us
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _prepare(self) -> None:
        # A group of its own: Ctrl-C, Ctrl-Z and `kill -- -GROUP` are meant for the command.
        os.setpgid(0, 0)
        tree.become_subreaper()
        self.cgroup = self.lifetime.enclose() if self.lifetime else ""
        if self.cgroup:
            from . import spawn  # loaded now, while the supervisor acquires the lease

            self.clone = spawn
        for signum in _NOT_FOR_US:
            if signal.signal(signum, signal.SIG_IGN) != signal.SIG_IGN:
                self.defaults.append(signum)  # the command gets it back; what nohup ignores stays ignored
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wake = wake_in
        self.poll = select.poll()
        self.poll.register(self.orders, select.POLLIN)
        self.poll.register(wake_in, select.POLLIN)

    def _wait(self) -> None:
        next_at = min(self.freeze_at, self.end_at, self.kill_at, self.limit_at, self.bound_at)
        slice_ = min(max(next_at - clock.now(), 0.0), clock.SLICE)
        for fd, _event in self.poll.poll(slice_ * 1000 + 1 if slice_ else 0):
            if fd == self.wake:
                os.read(self.wake, 4096)
            else:
                order = _receive(self.orders)
                if order is None:
                    self.poll.unregister(self.orders)
                    self._end(ORPHANED, grace=0)
                else:
                    getattr(self, f"_order_{order[0]}")(*order[1:])

    def _keep_time(self) -> None:
        now = clock.now()
        if now >= self.kill_at:
            self.status = tree.kill_and_prove(self.grant).get(self.child, self.status)
            self.child = -1
        elif now >= self.end_at:
            # Past the deadline (the machine slept) not even a moment is ours.
            self._end(LOST, grace=min(self.grace, (self.deadline - self.end_at) / 2) if now < self.deadline else 0)
        elif now >= self.bound_at:
            self.bound_at = float("inf")
            self._end(OVERDUE, grace=0)
        elif now >= self.limit_at:
            self._end(TIMED_OUT, grace=self.grace)
        elif now >= self.freeze_at and not self.frozen and self.child > 0:
            self.frozen = tree.freeze(self.grant)
            self.freeze_at = float("inf")
        elif self.why and self.child > 0:
            self._ask()

    def _finished(self) -> bool:
        """Reap; True when there was a tree and it is proven empty."""
        ended, empty = ({}, True) if self.child == -1 else tree.reap_all()
        if self.child > 0 and self.child in ended:
            self.status = ended[self.child]
            if not empty:
                self.left = len(tree.below_me(self.grant))
                self._end(LEFTOVERS, grace=self.grace)
        return empty and (self.child != 0 or self.why != "")

    def _end(self, why: str, *, grace: float, signum: int = signal.SIGTERM) -> None:
        """Begin the end: ask, and kill when the grace is over. A second call can only shorten it."""
        self.why = self.why or why
        self.freeze_at = self.end_at = self.limit_at = float("inf")
        if grace > 0 and self.kill_at == float("inf"):
            self.signum = signum
            self._ask()
            tree.signal_all(self.frozen, signal.SIGCONT)  # a stopped process cannot tidy up
        self.kill_at = min(self.kill_at, clock.now() + grace)

    def _ask(self) -> None:
        """Ask everybody once, also who was forked while we were asking."""
        while new := tree.below_me(self.grant) - self.asked:
            tree.signal_all(new, self.signum)
            self.asked |= new

    def _order_tenure(self, freeze_at: float, end_at: float, deadline: float) -> None:
        if self.why:
            return
        self.freeze_at, self.end_at, self.deadline = freeze_at, end_at, deadline
        if self.frozen and clock.now() < freeze_at:
            tree.signal_all(self.frozen, signal.SIGCONT)
            self.frozen = set()

    def _order_limit(self, at: float) -> None:
        if not self.why:
            self.limit_at = at

    def _order_bound(self, at: float) -> None:
        self.bound_at = at

    def _order_beside(self, beside: bool) -> None:
        self.beside = beside

    def _order_end(self, why: str, grace: float, signum: int) -> None:
        self._end(why, grace=grace, signum=signum)

    def _order_signal(self, signum: int) -> None:
        if self.child > 0 and self.status is None:
            tree.signal_all({self.child}, signum)

    def _order_start(self, cwd: str, grace: float) -> None:
        self.grace = grace
        command: Any = _receive(self.command)
        self._keep_time()  # who was stopped until its time was over starts nothing
        if self.why or not command:
            return  # without one its supervisor is gone, as the orders tell next
        try:
            if cwd:
                os.chdir(cwd)
            self.child = self._spawn(*command)
        except OSError as error:
            self.why = FAILED
            self._report(NotStarted(command=command[0][0], number=error.errno or 0, where=str(error.filename)))
        else:
            self.started = True
            self._report(Started(pid=self.child))

    def _report(self, report: Report) -> None:
        try:
            _send(self.reports, type(report).__name__, vars(report))
        except BrokenPipeError:
            pass  # nobody is left to read it

    def _spawn(self, argv: list[str], env: dict[str, str]) -> int:
        """Start the command as a shell would: found on its own PATH, default signals, our terminal."""
        name = argv[0]
        folders = env.get("PATH", os.defpath).split(os.pathsep)  # os.get_exec_path imports warnings
        places = [name] if "/" in name else [f"{folder}/{name}" for folder in folders]
        denied: OSError | None = None
        for path in places:
            if not os.path.exists(path):
                continue  # asking first: a spawn that fails costs a fork
            try:
                return self._spawn_file(path, argv, env)
            except PermissionError as error:
                denied = error
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                return self._spawn_file("/bin/sh", ["sh", path, *argv[1:]], env)  # a script without #!
        raise denied or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def _spawn_file(self, path: str, argv: list[str], env: dict[str, str]) -> int:
        onto = list(zip(self.streams or (), (1, 2), strict=False))
        if self.cgroup:
            try:
                return self.clone.spawn(
                    self.cgroup, path, argv, env, streams=onto, group=self.group, defaults=self.defaults
                )
            except self.clone.Unsupported:
                self._move_in()
        return os.posix_spawn(
            path,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in onto],
            setpgroup=self.group,
            setsigdef=self.defaults,
        )

    def _move_in(self) -> None:
        """Into the cgroup, with all that is started from here on."""
        if self.lifetime and not cgroup.join(self.cgroup):
            self.lifetime.without_cgroup()
        self.cgroup = ""
