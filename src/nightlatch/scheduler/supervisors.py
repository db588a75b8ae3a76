"""The supervisors, as the forking process starts them. One whose run has ended is given the next order.

To fork a supervisor, and to copy the pages that its first run touches, takes more CPU time than the rest of a short
run. So when many slots are due at once, a few supervisors do them all, each of them one run after the other, with one
warden (`system/standby.py`). One that a run has left in another state than it found is not used again.
"""

from __future__ import annotations

import os
import select
import sys
from _thread import _count as count_threads

from ..config import place
from ..core.job import unpack
from ..errors import Error, Stop
from ..runtime.supervisor.start import start
from ..system import clock, printing, process, tree, warden
from ..system.light import signal, sockets
from ..system.standby import Standby
from .orders import receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import NoReturn

    from .orders import Message

_IDLE = 1.0  # seconds after which a supervisor without an order is ended
_NEVER = float("inf")
_MOST_KEPT = 100  # supervisors at a time that may get another order: each of them takes a descriptor here
_MOST_RUNS = 100  # of one supervisor: what a run might leak does not add up for ever


class _Supervisor:
    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid, self.channel = pid, channel
        self.idle_since = _NEVER  # while it has a run


class Supervisors:
    """Those that this process has forked. It must have one thread."""

    def __init__(self, poll: select.poll, *inherited: socket.socket) -> None:
        """`poll`: gets their channels added. `inherited`: sockets of this process that they must not keep open."""
        self._poll, self._inherited = poll, inherited
        self._by_fd: dict[int, _Supervisor] = {}  # by the channel's descriptor

    def start(self, order: Message, *, reuse: bool) -> int:
        """Give the order to an idle supervisor, if there is one and `reuse` allows it, or else to a new one. Returns
        the supervisor's pid."""
        idle = next((one for one in self._by_fd.values() if one.idle_since < _NEVER), None) if reuse else None
        if idle is None:
            return self._fork(order)
        idle.idle_since = _NEVER
        send(idle.channel, order)
        return idle.pid

    def ended(self, ready: set[int]) -> list[tuple[int, int]]:
        """The runs that have ended, as (supervisor's pid, exit code). Every supervisor that has exited is listed, an
        idle one too: after an upgrade this process does not know which of them had a run. `ready`: the descriptors that
        can be read."""
        found: list[tuple[int, int]] = []
        for fd in ready & self._by_fd.keys():
            one = self._by_fd[fd]
            message = receive(one.channel)
            if message is None:
                self._drop(fd)
            else:
                one.idle_since = clock.now()
                found.append((one.pid, message["code"]))
        for pid, status in tree.reap_all()[0].items():
            for fd in [fd for fd, one in self._by_fd.items() if one.pid == pid]:
                self._drop(fd)
            found.append((pid, os.waitstatus_to_exitcode(status)))
        return found

    def end_idle(self) -> float:
        """End those that have been idle for too long. Returns the seconds until the next one has been; inf: none is."""
        now = clock.now()
        for fd, one in list(self._by_fd.items()):
            if now - one.idle_since >= _IDLE:
                self._drop(fd)
        return min((one.idle_since + _IDLE - now for one in self._by_fd.values()), default=_NEVER)

    def _drop(self, fd: int) -> None:
        """Close the channel. A supervisor that is idle ends then."""
        self._poll.unregister(fd)
        self._by_fd.pop(fd).channel.close()

    def _fork(self, order: Message) -> int:
        ours, theirs = sockets.socketpair()
        pid = os.fork()
        if pid == 0:
            for channel in (ours, *self._inherited, *(one.channel for one in self._by_fd.values())):
                channel.close()
            _live(theirs, order)
        theirs.close()
        if len(self._by_fd) < _MOST_KEPT:
            self._by_fd[ours.fileno()] = _Supervisor(pid, ours)
            self._poll.register(ours.fileno(), select.POLLIN)
        else:
            ours.close()  # so it ends after this run
        return pid


def _live(channel: socket.socket, order: Message) -> NoReturn:
    """Be a supervisor: from the fork to the process's end."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)  # what the command prints is kept with its run
        printing.install()
        os._exit(_supervise_all(channel, order))
    except BaseException:  # noqa: BLE001  a forked child must not return
        import traceback

        traceback.print_exc()
        os._exit(125)


def _supervise_all(channel: socket.socket, order: Message | None) -> int:
    """Carry out the order, and those that follow; returns the exit code of the last run."""
    standby = Standby()
    if sys.platform == "linux":  # elsewhere no warden can be sure that its tree is empty
        warden.standby = standby
    before, code, runs = _state(standby), 0, 0
    while order:
        _log_to(order["log"])
        code, has_verdict = supervise(order)
        runs += 1
        if not has_verdict or runs == _MOST_RUNS or _state(standby) != before:
            break
        os.chdir("/")  # until the next run, the job's folder may be unmounted or replaced
        send(channel, {"code": code})
        order = receive(channel)
    standby.end()
    return code


def _state(standby: Standby) -> tuple[object, ...]:
    """What a run has to leave as it found it, if another is to follow in this process: all but a warden that stands
    by."""
    return (
        count_threads(),
        tree.strangers() - {standby.pid},
        [fd for fd in process.own_descriptors() if fd != standby.fileno()],
        dict(os.environ),
        [signal.getsignal(signum) for signum in range(1, signal.NSIG)],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        process.settings() if sys.platform == "linux" else (),
    )


def _log_to(path: str) -> None:
    """Send the supervisor's errors to a file: the scheduler's terminal or pipe may be gone before the run ends. Opened
    again for each run, since the file may have been moved away meanwhile."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(fd, 2)
    os.close(fd)


def supervise(order: Message) -> tuple[int, bool]:
    """Run the claimed job. Returns the exit code of its run, and whether it got a verdict: after an error the run may
    count as running until this process has ended."""
    job = unpack(order["job"])
    place.put_in_force(order.get("config", {}))
    try:
        verdict = start(job, store=order["store"], claim=order["claim"])
    except (Error, Stop) as error:
        print(f"nightlatch: {job.name} ({job.key}): {error}", file=sys.stderr, flush=True)
        return error.exit_code, False
    print(verdict.line(), file=sys.stderr, flush=True)
    return verdict.exit_code, True
