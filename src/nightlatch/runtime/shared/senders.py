"""Which process of this machine sends a store's alerts, or its traces: the one that has the lock. One is enough.

A sender looks once more after it has released the lock: a process that saw the lock taken has left its news to it.
"""

from __future__ import annotations

import os
from zlib import crc32

from ...system import durable
from ...system.filelock import FairLock

_PATIENCE = 1.0  # seconds for the end of a holder that is stopped


class SenderLock:
    def __init__(self, what: str, folder: str, file: str = "") -> None:
        """`folder`: the store's, on this machine. `file`: the nightlatch.toml that says where it is sent; another file
        may have other receivers, and so needs another sender."""
        path = os.path.join(folder, f"{what}-{crc32(os.fsencode(os.path.realpath(file))):08x}.lock")
        self._lock = FairLock(path, signs=True)

    def take(self) -> bool:
        """Have the lock; False if another process sends. One that is stopped does not: it is killed."""
        if not self._lock.held:
            durable.private_folder(os.path.dirname(self._lock.path))
            if not self._lock.acquire_if_free() and self._lock.stopped_holder():
                self._lock.acquire_from_stopped(_PATIENCE)
        return self._lock.held

    def is_taken(self) -> bool:
        """Does another process send?"""
        if not os.path.exists(self._lock.path):
            return False
        if self._lock.acquire_if_free():
            self._lock.release()
            return False
        return not self._lock.stopped_holder()

    def release(self) -> None:
        if self._lock.held:
            self._lock.release()
