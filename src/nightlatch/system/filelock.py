"""A lock on a file that many processes take in turn.

The kernel queues those who block in flock(2), so nobody starves; polling with LOCK_NB would let the
fastest win every time. A waiter can see whether it waits for somebody who is stopped: the kernel tells who
has the lock, and where it does not (macOS, btrfs), whoever has it writes into the file who it is.
"""

from __future__ import annotations

import fcntl
import os
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

    def __init__(self, path: str, *, keep_open: bool = False) -> None:
        """`keep_open`: for one that is taken often, by who closes it before a fork: a child would share the lock."""
        self.path = path
        self._fd = -1
        self._keep_open, self._kept = keep_open, -1
        self._signed = True  # until it is seen that the kernel tells who has the lock

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
                self._give_back(fd)
        waiter = _Waiter(self._open(), work, signed=self._signed)
        if not self._wait(waiter, patience, end_stopped=True):
            raise TimeoutError
        if waiter.error is not None:
            raise waiter.error
        return waiter.result  # type: ignore[return-value]

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        self._give_back(fd)

    def close(self) -> None:
        """What was kept open is closed. Not to be called by who has the lock."""
        kept, self._kept = self._kept, -1
        if kept >= 0:
            os.close(kept)

    def holder(self) -> tuple[int, int] | None:
        """(pid, start) of who has the lock; None if nobody has, or it cannot be known from here."""
        try:
            with open(self.path, "rb") as file:
                taker = _taker(os.fstat(file.fileno()))
                if taker:
                    return taker
                pid, start, namespace = file.read(80).decode("ascii").split()
            if namespace != identity.pid_namespace():
                return None
            alive = process.state_of(int(pid), int(start)) != process.GONE  # or killed; the next one has not signed yet
            return (int(pid), int(start)) if alive else None
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
        me = _me() if self._signed else b""
        fd = self._kept if self._kept >= 0 else self._open()
        if self._keep_open:
            self._kept = fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if fd != self._kept:
                os.close(fd)
            return -1
        self._signed = self._signed and not _is_told(fd)
        if self._signed:
            os.pwrite(fd, me, 0)
        return fd

    def _give_back(self, fd: int) -> None:
        _unlock(fd, signed=self._signed)
        if fd != self._kept:
            os.close(fd)

    def _take(self, patience: float, *, end_stopped: bool) -> bool:
        fd = self._at_once()
        if fd < 0:
            waiter = _Waiter(self._open(), None, signed=self._signed)
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


def _is_told(fd: int) -> bool:
    """Does the kernel tell who has the lock? Seen by what it tells of our own: to tell of all takes it 15 ms."""
    mine = b" %d %s " % (os.getpid(), _place(os.fstat(fd)))
    return any(b"FLOCK" in line and mine in line for line in _lines(f"/proc/self/fdinfo/{fd}"))


def _unlock(fd: int, *, signed: bool) -> None:
    if signed:
        os.pwrite(fd, _NOBODY, 0)  # so that a name in the file is always the name of who has the lock
    # Unlock, not only close: a child forked in this moment has a copy of the descriptor.
    fcntl.flock(fd, fcntl.LOCK_UN)


def _taker(file: os.stat_result) -> tuple[int, int] | None:
    """(pid, start) of who has locked the file, as far as the kernel tells."""
    place = _place(file)
    for fields in map(bytes.split, _lines("/proc/locks")):
        if fields[1] == b"FLOCK" and fields[5] == place:  # a waiter's line has "->" there instead
            start = process.start_of(int(fields[4]))
            return None if start is None else (int(fields[4]), start)
    return None


def _place(file: os.stat_result) -> bytes:
    """As the kernel's lists of locks name a file."""
    return b"%02x:%02x:%d" % (os.major(file.st_dev), os.minor(file.st_dev), file.st_ino)


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []  # another system, or a sandbox


class _Waiter:
    """Blocks in flock on a thread of its own: only so can waiting in the kernel's queue be given up.

    With `work` that thread does it and gives the lock back; without, the lock is the caller's.
    """

    def __init__(self, fd: int, work: Callable[[], object] | None, *, signed: bool) -> None:
        self.fd, self._name, self._work, self._signed = fd, _me(), work, signed
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
            self._give_back()

    def _block(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        if self._signed:
            os.pwrite(self.fd, self._name, 0)
        if not self._settled.acquire(blocking=False):
            self._give_back()  # given up meanwhile
        elif self._work:
            try:
                self.result = self._work()
            except BaseException as error:  # noqa: BLE001  raised again where it was called for
                self.error = error
            finally:
                self._give_back()
                self._done.release()
        else:
            self._done.release()  # from here on the descriptor is the caller's: it may be closed already

    def _give_back(self) -> None:
        _unlock(self.fd, signed=self._signed)
        os.close(self.fd)
