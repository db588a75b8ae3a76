"""The warden's own process: it starts the command, keeps the deadlines, and ends the tree."""

from __future__ import annotations

import errno
import os
import select

from ..errors import remedy
from . import cgroup, clock, process, tree
from .light import signal
from .warden_messages import (
    END_SIGNALS,
    FAILED,
    LEFTOVERS,
    LOST,
    ORPHANED,
    OVERDUE,
    TIMED_OUT,
    Ended,
    NotStarted,
    Report,
    Started,
    hint,
    receive,
    send,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, NoReturn

    from .lifetime import Lifetime
    from .standby import WardensEnd

_IGNORED = (*END_SIGNALS, signal.SIGQUIT, signal.SIGTTOU)  # meant for the command, not for the warden


def _group_of_command() -> int:
    """The process group for the command: at a terminal the supervisor's, so that Ctrl-C and job control reach it;
    otherwise 0, a new one.

    Without a terminal (cron, setsid, CI) the command alone would keep the supervisor's group from being orphaned. When
    it ended, the kernel would send SIGHUP and SIGCONT to the whole group if a process in it is stopped.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return 0
    return os.getpgrp()


class WardenProcess:
    """What runs in the forked process, from `live` to its exit. One that stands by has an instance for each tree."""

    def __init__(
        self,
        orders: int,
        command: int,
        reports: int,
        grant: str,
        streams: tuple[int, int] | None,
        lifetime: Lifetime | None,
        mask: Collection[int],
        frugal: bool,
        standby: WardensEnd | None = None,
    ) -> None:
        """`standby`: by which it gets its next tree; None: it ends with this one."""
        self.orders, self.command, self.reports = orders, command, reports
        self.grant, self.streams, self.lifetime, self.mask, self.frugal = grant, streams, lifetime, mask, frugal
        self.standby, self.stands_by = standby, False
        self.child = 0
        self.started = False
        self.status: int | None = None
        self.frozen: set[int] = set()
        self.signalled: set[int] = set()  # pids that were sent `signum`
        self.signum = int(signal.SIGTERM)
        self.why = ""
        self.left = 0
        self.supervisor_works = False
        self.grace = 10.0
        self.wake = -1  # readable when a child has ended; -1: this process is not prepared yet
        self.home = ""  # the cgroup that it left for the tree's
        never = float("inf")
        self.freeze_at = self.end_at = self.deadline = self.kill_at = self.limit_at = self.bound_at = never

    def live(self) -> NoReturn:
        code = 70
        try:
            if self.standby and self.lifetime:  # what else is open would stay open in all its trees
                pipes = self.orders, self.command, self.reports
                kept = *pipes, *(self.streams or ()), self.lifetime.fileno(), self.standby.fileno()
                process.close_all_but(0, 1, 2, *kept)
            one: WardenProcess | None = self
            while one:
                code = 70
                if one._is_prepared():
                    one._supervise()
                    code = 0
                one = one._next()
        except BaseException:  # noqa: BLE001 - nothing may escape into the code that forked us
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _is_prepared(self) -> bool:
        """False if the disk has no room for the locks of the tree: then nothing is started, which leaves no doubt."""
        try:
            self._prepare()
        except OSError as error:
            if not (advice := remedy(error)):
                raise
            number, where = error.errno or 0, str(error.filename)
            self._report(NotStarted(command="the command", number=number, where=where, hint=advice))
            return False
        return True

    def _supervise(self) -> None:
        while not self._finished():
            self._wait()
            self._keep_time()
        if self.supervisor_works and self.why == ORPHANED:
            tree.sweep(self.grant, 0)
        self.stands_by = self.standby is not None and not self.why and self._has_let_go()
        self._report(
            Ended(status=self.status, why=self.why, left=self.left, started=self.started, stands_by=self.stands_by)
        )

    def _prepare_process(self) -> None:
        """What is done once, however many trees follow."""
        self.group = _group_of_command()  # before we leave the supervisor's
        # A separate group, because Ctrl-C, Ctrl-Z and `kill -- -GROUP` are meant for the command.
        os.setpgid(0, 0)
        tree.become_subreaper()
        self.defaults = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores the last two
        for signum in _IGNORED:
            if signal.signal(signum, signal.SIG_IGN) != signal.SIG_IGN:
                self.defaults.append(signum)  # reset for the command; what nohup ignores stays ignored
        self.wake, wake_out = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _prepare(self) -> None:
        if self.wake < 0:
            self._prepare_process()
        if self.standby:
            self.settings = process.settings()
        self.cgroup = self.lifetime.enclose() if self.lifetime else ""
        if self.cgroup and self.frugal:
            self._move_in()
        elif self.cgroup:
            from . import spawn  # loaded now, while the supervisor acquires the lease

            self.clone = spawn
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        self.poll = select.poll()
        self.poll.register(self.orders, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)

    def _has_let_go(self) -> bool:
        """Give up all that this process has for the tree, which is proven empty. False: it has to end for that."""
        assert self.lifetime
        try:
            if self.home and not cgroup.join(self.home):
                return False
            os.chdir("/")
            self.lifetime.close()
            for fd in self.streams or ():
                os.close(fd)
            return process.settings() == self.settings  # the command may have changed them
        except OSError:
            return False

    def _next(self) -> WardenProcess | None:
        """Wait for the next tree. None: there is none."""
        if not self.stands_by or self.standby is None:
            return None
        for fd in (self.orders, self.command, self.reports):
            os.close(fd)
        found = self.standby.receive()
        if found is None:
            return None
        following = WardenProcess(**found, frugal=True, standby=self.standby)
        following.group, following.defaults, following.wake = self.group, self.defaults, self.wake
        return following

    def _wait(self) -> None:
        next_at = min(self.freeze_at, self.end_at, self.kill_at, self.limit_at, self.bound_at)
        slice_ = min(max(next_at - clock.now(), 0.0), clock.SLICE)
        for fd, _event in self.poll.poll(slice_ * 1000 + 1 if slice_ else 0):
            if fd == self.wake:
                os.read(self.wake, 4096)
            else:
                order = receive(self.orders)
                if order is None:
                    self.poll.unregister(self.orders)
                    self._end(ORPHANED, grace=0)
                else:
                    getattr(self, f"_order_{order[0]}")(*order[1:])

    def _keep_time(self) -> None:
        now = clock.now()
        if now >= self.kill_at:
            self.status = tree.kill_and_prove(self.grant, set()).get(self.child, self.status)
            self.child = -1
        elif now >= self.end_at:
            # Past the deadline (the machine slept) there is no time for grace.
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
            self._signal_tree()

    def _finished(self) -> bool:
        """Reap children; True once the tree is proven empty, after the command was started or something ended it."""
        ended, empty = ({}, True) if self.child == -1 else tree.reap_all()
        if self.child > 0 and self.child in ended:
            self.status = ended[self.child]
            if not empty:
                self.left = len(tree.below_me(self.grant))
                self._end(LEFTOVERS, grace=self.grace)
        return empty and (self.child != 0 or self.why != "")

    def _end(self, why: str, *, grace: float, signum: int = signal.SIGTERM) -> None:
        """Signal the tree to end, and kill it when the grace is over. A second call can only shorten the grace."""
        self.why = self.why or why
        self.freeze_at = self.end_at = self.limit_at = float("inf")
        if grace > 0 and self.kill_at == float("inf"):
            self.signum = signum
            self._signal_tree()
            tree.signal_all(self.frozen, signal.SIGCONT)  # a stopped process cannot clean up
        self.kill_at = min(self.kill_at, clock.now() + grace)

    def _signal_tree(self) -> None:
        """Signal every process of the tree once, including those forked meanwhile."""
        while new := tree.below_me(self.grant) - self.signalled:
            tree.signal_all(new, self.signum)
            self.signalled |= new

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

    def _order_supervisor_works(self, works: bool) -> None:
        self.supervisor_works = works

    def _order_end(self, why: str, grace: float, signum: int) -> None:
        self._end(why, grace=grace, signum=signum)

    def _order_signal(self, signum: int) -> None:
        if self.child > 0 and self.status is None:
            tree.signal_all({self.child}, signum)

    def _order_start(self, cwd: str, grace: float) -> None:
        self.grace = grace
        command: Any = receive(self.command)
        self._keep_time()  # a warden that was stopped past its deadline must start nothing
        if self.why or not command:
            return  # no command: the supervisor is gone, and the next read of orders shows it
        try:
            if cwd:
                os.chdir(cwd)
            self.child = self._spawn(*command)
        except OSError as error:
            self.why, program, number = FAILED, command[0][0], error.errno or 0
            where = str(error.filename or program)  # no file: a descriptor or a process could not be had
            self._report(NotStarted(command=program, number=number, where=where, hint=hint(program, number)))
        else:
            self.started = True
            self._report(Started(pid=self.child))

    def _report(self, report: Report) -> None:
        try:
            send(self.reports, type(report).__name__, vars(report))
        except BrokenPipeError:
            pass  # nobody is left to read it

    def _spawn(self, argv: list[str], env: dict[str, str]) -> int:
        """Start the command as a shell would: found in the PATH of `env`, default signals, our terminal."""
        name = argv[0]
        folders = env.get("PATH", os.defpath).split(os.pathsep)  # os.get_exec_path imports warnings
        places = [name] if "/" in name else [f"{folder}/{name}" for folder in folders]
        denied: OSError | None = None
        for path in places:
            if not os.path.exists(path):
                continue  # checked first, since a failed spawn costs a fork
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
        streams = list(zip(self.streams or (), (1, 2), strict=False))
        if self.cgroup:
            try:
                return self.clone.spawn(
                    self.cgroup, path, argv, env, streams=streams, group=self.group, default_signals=self.defaults
                )
            except self.clone.Unsupported:
                self._move_in()
        return os.posix_spawn(
            path,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in streams],
            setpgroup=self.group,
            setsigdef=self.defaults,
        )

    def _move_in(self) -> None:
        """Move this process into the cgroup, with everything that it starts from now on. A cgroup that was empty for a
        day may have been removed by another run: then make it again."""
        self.home = os.path.dirname(self.cgroup)
        if self.lifetime and not cgroup.join(self.cgroup):
            again = cgroup.make(self.lifetime.grant)
            if again != self.cgroup or not cgroup.join(again):
                self.lifetime.without_cgroup()
                cgroup.remove(again or self.cgroup)
        self.cgroup = ""
