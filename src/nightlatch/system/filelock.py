"""A lock on a file that many processes take in turn.

The kernel queues processes that block in flock(2), so none starves; polling with LOCK_NB would let the fastest win each
time. A waiter can see whether the holder is stopped: the kernel names the holder's process, and where it does not
(macOS, btrfs), the holder signs, that is, writes its pid and start time into the file.
"""

from __future__ import annotations

import errno
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

_UNSIGNED = b" " * 80

_DEATH_TIMEOUT = 1.0  # seconds that a killed process has, at least, to lose the lock
LOOK_AFTER = 2.0  # seconds of waiting before a waiter looks at the holder


_signatures: dict[int, bytes] = {}  # by pid: a forked child needs its own


def _signature() -> bytes:
    """What this process writes into the file as the holder."""
    pid = os.getpid()
    if pid not in _signatures:
        _signatures.clear()
        _signatures[pid] = f"{pid} {process.start_of(pid)} {identity.pid_namespace()}\n".encode().ljust(80)
    return _signatures[pid]


class FairLock:
    """Only one thread at a time may acquire and release the lock; any may call `holder` and `stopped_holder`."""

    def __init__(self, path: str, *, keep_open: bool = False, signs: bool = False) -> None:
        """`keep_open`: keep the file open, for a lock that is taken often. Call `close` before a fork, since the child
        would share the lock. `signs`: the holder always signs, for a lock whose holder is looked at often: reading the
        kernel's list of all locks takes 15 ms."""
        self.path = path
        self._fd = -1
        self._keep_open, self._kept_fd = keep_open, -1
        self._signs = signs
        self._must_sign = True  # sign the file as its holder; False once we know that the kernel names the holder

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def acquire_if_free(self) -> bool:
        self._fd = self._try_once()
        return self.held

    def acquire(self, timeout: float) -> bool:
        """Wait in the queue for up to `timeout` seconds. False: another process still has the lock."""
        return self._take(timeout, end_stopped=False)

    def acquire_from_stopped(self, patience: float) -> bool:
        """As `acquire`, but kill a holder that is stopped.

        It would keep every other process out for good and, once continued, would act on checks that it made long ago.
        Raises PermissionError if it belongs to another user.
        """
        return self._take(patience, end_stopped=True)

    def run(self, work: Callable[[], T], patience: float) -> T:
        """Call `work` while holding the lock; returns its result. Waits as `acquire_from_stopped` does, and raises
        TimeoutError if the lock is not free in time.

        If it has to wait, the waiting thread does the work as soon as it has the lock: the next process in the queue
        need not wait until the calling thread is awake.
        """
        fd = self._try_once()
        if fd >= 0:
            try:
                return work()
            finally:
                self._give_back(fd)
        waiter = _Waiter(self._open(), work, must_sign=self._must_sign)
        if not self._wait(waiter, patience, end_stopped=True):
            raise TimeoutError
        return waiter.result  # type: ignore[return-value]

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        self._give_back(fd)

    def close(self) -> None:
        """Close the file that was kept open. Do not call it while this process holds the lock."""
        kept, self._kept_fd = self._kept_fd, -1
        if kept >= 0:
            os.close(kept)

    def holder(self) -> tuple[int, int] | None:
        """(pid, start) of the process that has the lock; None if there is none, or it cannot be seen from here."""
        try:
            with open(self.path, "rb") as file:
                locker = _locker(os.fstat(file.fileno())) if not self._signs else None
                if locker:
                    return locker
                pid, start, namespace = file.read(80).decode("ascii").split()
            if namespace != identity.pid_namespace():
                return None
            alive = process.state_of(int(pid), int(start)) != process.GONE  # a killed process leaves its signature
            return (int(pid), int(start)) if alive else None
        except (OSError, ValueError):
            return None

    def stopped_holder(self) -> tuple[int, int] | None:
        """The holder, if it is stopped (SIGSTOP, Ctrl-Z, a debugger) and so will not release the lock."""
        holder = self.holder()
        if not holder or process.state_of(*holder) != process.STOPPED:
            return None
        # Checked again: it may have released the lock before it was stopped, and then it blocks no other process.
        return holder if self.holder() == holder else None

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _try_once(self) -> int:
        """Try once, without waiting: the locked descriptor, or -1 if another process has the lock."""
        # Prepared before, to be written as soon as the lock is ours: a holder stopped before it signs cannot be found.
        signature = _signature() if self._must_sign else b""
        fd = self._kept_fd if self._kept_fd >= 0 else self._open()
        if self._keep_open:
            self._kept_fd = fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if fd != self._kept_fd:
                os.close(fd)
            return -1
        try:
            self._must_sign = self._signs or (self._must_sign and not _kernel_names_holder(fd))
            if self._must_sign:
                os.pwrite(fd, signature, 0)
        except BaseException:
            self._give_back(fd)
            raise
        return fd

    def _give_back(self, fd: int) -> None:
        try:
            _unlock(fd, signed=self._must_sign)
        finally:
            if fd != self._kept_fd:
                os.close(fd)

    def _take(self, patience: float, *, end_stopped: bool) -> bool:
        fd = self._try_once()
        if fd < 0:
            waiter = _Waiter(self._open(), None, must_sign=self._must_sign)
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
                    deadline = max(deadline, clock.now() + _DEATH_TIMEOUT)
                elif clock.now() >= deadline and waiter.give_up():
                    return False
        except BaseException:
            waiter.leave()
            raise
        if waiter.error is not None:
            raise waiter.error
        return True


def _kernel_names_holder(fd: int) -> bool:
    """Does the kernel name the holder? Checked on our new lock, since reading the list of all locks takes 15 ms."""
    mine = b" %d %s " % (os.getpid(), _place(os.fstat(fd)))
    return any(b"FLOCK" in line and mine in line for line in _lines(f"/proc/self/fdinfo/{fd}"))


def _unlock(fd: int, *, signed: bool) -> None:
    try:
        if signed:
            os.pwrite(fd, _UNSIGNED, 0)  # so that a signature in the file is always the holder's
    finally:
        # Unlock, not only close: a child that is forked right now has a copy of the descriptor.
        fcntl.flock(fd, fcntl.LOCK_UN)


def _locker(file: os.stat_result) -> tuple[int, int] | None:
    """(pid, start) of the process that locked the file, if the kernel names it."""
    place = _place(file)
    for fields in map(bytes.split, _lines("/proc/locks")):
        if fields[1] == b"FLOCK" and fields[5] == place:  # a waiter's line has "->" there instead
            start = process.start_of(int(fields[4]))
            return None if start is None else (int(fields[4]), start)
    return None


def _place(file: os.stat_result) -> bytes:
    """How the kernel's lists of locks name a file."""
    return b"%02x:%02x:%d" % (os.major(file.st_dev), os.minor(file.st_dev), file.st_ino)


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []  # another system, or a sandbox


class _Waiter:
    """Blocks in flock on a separate thread: there is no other way to give up waiting in the kernel's queue.

    With `work`, that thread calls it and releases the lock; without, the caller gets the lock.
    """

    def __init__(self, fd: int, work: Callable[[], object] | None, *, must_sign: bool) -> None:
        self.fd, self._signature, self._work, self._must_sign = fd, _signature(), work, must_sign
        self.result: object = None
        self.error: BaseException | None = None
        self._settled = allocate_lock()  # the side that takes it first decides: locked, or given up
        self._done = allocate_lock()  # released by the thread, after it has set `_over`
        self._done.acquire()
        self._over = False
        try:
            start_new_thread(self._block, ())
        except RuntimeError as error:  # there are too many threads and processes now: the next try may succeed
            os.close(fd)
            raise OSError(errno.EAGAIN, str(error)) from error

    def wait(self, timeout: float = -1.0) -> bool:
        """True once the thread has got the lock and, with `work`, has done it. May be called again after that."""
        return self._over or self._done.acquire(timeout=timeout)

    def give_up(self) -> bool:
        """Stop waiting. False: too late, the waiter has got the lock, and its work is done when this returns."""
        if self._settled.acquire(blocking=False):
            return True
        self.wait()
        return False

    def leave(self) -> None:
        """The caller was interrupted: neither the wait nor the work may continue."""
        if not self._settled.acquire(blocking=False) and self.wait() and self._is_callers():
            self._give_back()

    def _is_callers(self) -> bool:
        """Is the lock the caller's, once this is done?"""
        return not self._work and self.error is None

    def _block(self) -> None:
        must_sign, self._must_sign = self._must_sign, False  # until we have the lock, the signature is the holder's
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            self._must_sign = must_sign
            if must_sign:
                os.pwrite(self.fd, self._signature, 0)
        except OSError as error:
            self.error = error
        if not self._settled.acquire(blocking=False):
            self._give_back()  # the caller has given up
            return
        try:
            if self._work and self.error is None:
                self.result = self._work()
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            self.error = error
        try:
            if not self._is_callers():
                self._give_back()
        finally:
            self._over = True  # the descriptor may be closed already from here on
            self._done.release()

    def _give_back(self) -> None:
        try:
            _unlock(self.fd, signed=self._must_sign)
        finally:
            os.close(self.fd)
