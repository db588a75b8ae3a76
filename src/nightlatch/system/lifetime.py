"""A lock that proves a life: held from before a grant is asked for until its tree is gone.

The kernel lets go of it when the last process that has it ends, however it ends. Supervisor and
warden share one; the command does not have it.
"""

from __future__ import annotations

import fcntl
import os

from ..errors import StoreUnreachable
from .durable import private_folder
from .identity import new_id


class Lifetime:
    """The life behind one grant, whose id is made here: before the request, so that it can be repeated."""

    def __init__(self, folder: str) -> None:
        self.grant = new_id()
        self.path = os.path.join(folder, "live", self.grant)
        try:
            private_folder(os.path.dirname(self.path))
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnreachable(
                f"the folder {folder} cannot be written: {error.strerror}. It holds the locks that prove who lives; "
                f"free it, or name another store with --store sqlite:////path/to/file"
            ) from error
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def end(self) -> None:
        """The grant is given back. (Without that the file stays, so that others can prove the end.)"""
        forget(self.path)
        self.close()

    def close(self) -> None:
        """Let go in this process; the lock stays while another process has it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_over(path: str) -> bool:
    """Is the life that held this lock over? A file that is not there proves nothing."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def forget(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
