"""Which process of this machine sends a store's alerts, or its traces: the one that has the lock. One is enough, and
several are safe.

A sender looks once more after it has released the lock: a process that saw the lock taken has left its news to it.
"""

from __future__ import annotations

import fcntl
import os
from zlib import crc32

from ...system import clock, durable, process
from ...system.filelock import FairLock
from ...system.light import signal

_PATIENCE = 0.1  # seconds that a killed holder has to lose the lock, or a process that only looks to close it
_PAUSE = 0.01


class SenderLock:
    def __init__(self, what: str, folder: str, file: str = "") -> None:
        """`folder`: the store's, on this machine. `file`: the nightlatch.toml that names the receivers, since another
        one needs another sender; "" for traces, whose receiver the environment names."""
        mark = f"-{crc32(os.fsencode(os.path.realpath(file))):08x}" if file else ""
        self._lock = FairLock(os.path.join(folder, f"{what}{mark}.lock"), signs=True)

    def take(self) -> bool:
        """May this process send? False if another one does. A holder that is stopped does not send, and is killed.
        Where there can be no lock, on a full disk say, every process sends."""
        try:
            return self._lock.held or self._take()
        except OSError:
            return True

    def _take(self) -> bool:
        durable.private_folder(os.path.dirname(self._lock.path))
        deadline = clock.now() + _PATIENCE
        while not self._lock.acquire_if_free():
            if stopped := self._lock.stopped_holder():
                process.send(*stopped, signal.SIGKILL)
            if clock.now() >= deadline:
                return False
            clock.sleep(_PAUSE)
        return True

    def is_taken(self) -> bool:
        """Does another process send?"""
        try:
            fd = os.open(self._lock.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that only look do not see each other
            return False
        except OSError:
            return not self._lock.stopped_holder()
        finally:
            os.close(fd)

    def release(self) -> None:
        if self._lock.held:
            self._lock.release()
