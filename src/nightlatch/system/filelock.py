"""A lock on a file that many processes take in turn.

The kernel queues those who block in flock(2), so nobody starves; polling with LOCK_NB would let the
fastest win every time. Whoever has the lock writes who it is into the file, so that a waiter can see
whether it waits for somebody who is stopped.
"""

from __future__ import annotations

import fcntl
import os
import sys
from _thread import allocate_lock, start_new_thread

from . import clock, identity, process
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_NOBODY = b" " * 80

_PARTING = 1.0  # seconds, at the least, for a process that was ended to let go of the lock
LOOK_AFTER = 2.0  # seconds of waiting before a waiter looks at whom it waits for


_known: dict[int, bytes] = {}


def _me() -> bytes:
    """How this process signs: looked up once, and again by a forked child, whose pid is another."""
    pid = os.getpid()
    if pid not in _known:
        _known.clear()
        _known[pid] = f"{pid} {process.start_of(pid)} {identity.pid_namespace()}\n".encode().ljust(80)
    return _known[pid]


class FairLock:
    """Taken and given back by one thread at a time; `holder` and `stopped` may be asked by anybody."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def acquire(self, timeout: float) -> bool:
        """Wait in the queue for up to `timeout` seconds."""
        return self._take(timeout, end_stopped=False)

    def acquire_from_stopped(self, patience: float) -> bool:
        """Wait in the queue for up to `patience` seconds, and end whoever is found stopped inside the lock.

        It would keep everybody out for good and, continued, go on with what it checked long ago. Raises
        PermissionError if it belongs to another user.
        """
        return self._take(patience, end_stopped=True)

    def run(self, work: Callable[[], T], patience: float) -> T:
        """What `work` returns, done inside the lock, waited for as in `acquire_from_stopped`. TimeoutError: no turn.

        Where the lock has to be waited for, the thread that gets it does the work: the next one in the queue does
        not wait until this thread is awake.
        """
        fd = self._at_once()
        if fd >= 0:
            try:
                return work()
            finally:
                _give_back(fd)
        waiter = _Waiter(self._open(), work)
        if not self._wait(waiter, patience, end_stopped=True):
            raise TimeoutError
        if waiter.error is not None:
            raise waiter.error
        return waiter.result  # type: ignore[return-value]

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        _give_back(fd)

    def holder(self) -> tuple[int, int] | None:
        """(pid, start) of who has the lock; None if nobody has, or it cannot be known from here."""
        try:
            with open(self.path, "rb") as file:
                text, status = file.read(80).decode("ascii"), os.fstat(file.fileno())
            if not text.strip():  # between taking the lock and signing, or between blanking and giving back
                return _taker(status)
            pid, start, namespace = text.split()
            if namespace != identity.pid_namespace():
                return None
            if process.state_of(int(pid), int(start)) == process.GONE:  # killed; the next one may not have signed yet
                return _taker(status)
            return int(pid), int(start)
        except (OSError, ValueError):
            return None

    def stopped_holder(self) -> tuple[int, int] | None:
        """The holder, if it is stopped (SIGSTOP, Ctrl-Z, a debugger) and so will not give the lock back."""
        holder = self.holder()
        if not holder or process.state_of(*holder) != process.STOPPED:
            return None
        # Asked again: it may have given the lock back before it was stopped, and then it is in nobody's way.
        return holder if self.holder() == holder else None

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _at_once(self) -> int:
        """The locked descriptor; -1 if another has the lock."""
        # Found out before, written the moment the lock is ours: whoever is stopped in between is not to be found.
        me, fd = _me(), self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(fd, me, 0)
        except BlockingIOError:
            os.close(fd)
            return -1
        return fd

    def _take(self, patience: float, *, end_stopped: bool) -> bool:
        fd = self._at_once()
        if fd < 0:
            waiter = _Waiter(self._open(), None)
            if not self._wait(waiter, patience, end_stopped=end_stopped):
                return False
            fd = waiter.fd
        self._fd = fd
        return True

    def _wait(self, waiter: _Waiter, patience: float, *, end_stopped: bool) -> bool:
        deadline = clock.now() + patience
        try:
            while not waiter.wait(min(LOOK_AFTER, max(deadline - clock.now(), 0.0))):
                stopped = self.stopped_holder() if end_stopped else None
                if stopped:
                    process.send(*stopped, signal.SIGKILL)
                    deadline = max(deadline, clock.now() + _PARTING)
                elif clock.now() >= deadline and waiter.give_up():
                    return False
        except BaseException:
            waiter.leave()
            raise
        return True


def _give_back(fd: int) -> None:
    os.pwrite(fd, _NOBODY, 0)  # so that a name in the file is always the name of who has the lock
    # Unlock, not only close: a child forked in this moment has a copy of the descriptor.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _taker(file: os.stat_result) -> tuple[int, int] | None:
    """(pid, start) of who has locked a file that nobody has signed, as far as the kernel tells."""
    if sys.platform != "linux":
        return None
    device = file.st_dev
    inode = f"{os.major(device):02x}:{os.minor(device):02x}:{file.st_ino}"
    with open("/proc/locks", encoding="ascii") as locks:
        for line in locks:
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == inode:  # a waiter's line has "->" there instead
                start = process.start_of(int(fields[4]))
                return None if start is None else (int(fields[4]), start)
    return None


class _Waiter:
    """Blocks in flock on a thread of its own: only so can waiting in the kernel's queue be given up.

    With `work` that thread does it and gives the lock back; without, the lock is the caller's.
    """

    def __init__(self, fd: int, work: Callable[[], object] | None) -> None:
        self.fd, self._name, self._work = fd, _me(), work
        self.result: object = None
        self.error: BaseException | None = None
        self._settled = allocate_lock()  # whoever takes it first decides: locked, or given up
        self._done = allocate_lock()
        self._done.acquire()
        start_new_thread(self._block, ())

    def wait(self, timeout: float) -> bool:
        return self._done.acquire(timeout=timeout)

    def give_up(self) -> bool:
        """False: too late, it has the lock; what was wanted of it is done when this returns."""
        if self._settled.acquire(blocking=False):
            return True
        self._done.acquire()
        return False

    def leave(self) -> None:
        """The caller was interrupted: nothing of this goes on behind its back."""
        if not self._settled.acquire(blocking=False) and self._done.acquire() and not self._work:
            _give_back(self.fd)

    def _block(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        os.pwrite(self.fd, self._name, 0)
        if not self._settled.acquire(blocking=False):
            _give_back(self.fd)  # given up meanwhile
        elif self._work:
            try:
                self.result = self._work()
            except BaseException as error:  # noqa: BLE001  raised again where it was called for
                self.error = error
            finally:
                _give_back(self.fd)
                self._done.release()
        else:
            self._done.release()  # from here on the descriptor is the caller's: it may be closed already
