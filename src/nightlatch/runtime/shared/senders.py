"""Which process of this machine sends a store's alerts, or its traces: the one that has the lock. One is enough.

A sender looks once more after it has released the lock: a process that saw the lock taken has left its news to it.
"""

from __future__ import annotations

import fcntl
import os
from zlib import crc32

from ...system import durable


class SenderLock:
    def __init__(self, what: str, folder: str, file: str = "") -> None:
        """`folder`: the store's, on this machine. `file`: the nightlatch.toml that says where it is sent; another file
        may have other receivers, and so needs another sender."""
        self._path = os.path.join(folder, f"{what}-{crc32(os.fsencode(os.path.realpath(file))):08x}.lock")
        self._fd = -1

    def take(self) -> bool:
        """Have the lock; False if another process has it."""
        if self._fd < 0:
            durable.private_folder(os.path.dirname(self._path))
            self._fd = self._locked(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return self._fd >= 0

    def is_taken(self) -> bool:
        """Has another process the lock? Creates nothing."""
        try:
            fd = self._locked(os.open(self._path, os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            return False
        if fd >= 0:
            os.close(fd)
        return fd < 0

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _locked(self, fd: int) -> int:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return -1
        return fd
