"""Locks that prove a life: held from before a grant is asked for until its tree is gone.

The kernel lets go of a lock when the last process that has it ends, however it ends. Supervisor and warden share one.
The command, and all that it starts, inherits another: while that is held, somebody is left; when it is free, everybody
is gone or has closed it. Where a cgroup can be made, the tree is in one of its own, whose folder the file names.
"""

from __future__ import annotations

import fcntl
import os

from ..errors import StoreUnreachable
from . import cgroup
from .durable import private_folder
from .identity import new_id

TREE = ".tree"  # behind the name of a lifetime lock: the one that the tree inherits

_OUT_OF_THE_WAY = 200  # scripts use low descriptors for themselves


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

    def enclose(self) -> str:
        """Called by the warden before it starts anything: all that it starts inherits the lock. Returns the folder of a
        cgroup to start it in, "" where none can be made."""
        fd = os.open(self.path + TREE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            fcntl.fcntl(fd, fcntl.F_DUPFD, _OUT_OF_THE_WAY)
        except OSError:
            os.set_inheritable(fd, True)  # so many descriptors are not allowed here
        else:
            os.close(fd)
        group = cgroup.make(self.grant)
        os.write(self._fd, os.fsencode(group))
        return group

    def without_cgroup(self) -> None:
        """What is started is not in the cgroup that `enclose` made, so that its being empty must prove nothing."""
        os.ftruncate(self._fd, 0)

    def end(self) -> None:
        """The grant is given back. (Without that the files stay, so that others can prove the end.)"""
        forget(self.path)
        self.close()

    def close(self) -> None:
        """Let go in this process; the lock stays while another process has it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_over(path: str) -> bool:
    """Is the life that held this lock over? A file that is not there proves nothing."""
    return is_free(path) is True


def is_free(path: str) -> bool | None:
    """Can the lock be had? None if there is no such file."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def cgroup_of(path: str) -> str:
    """The folder of the cgroup that the tree is in; "" if it is in none of its own."""
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


def forget(path: str) -> None:
    cgroup.remove(cgroup_of(path))
    for each in (path + TREE, path):
        try:
            os.unlink(each)
        except FileNotFoundError:
            pass
