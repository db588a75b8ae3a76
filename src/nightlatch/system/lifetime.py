"""Locks that prove that a holder is alive: they are held from before the acquire until its tree is gone.

The kernel frees a lock when the last process that has it ends, however it ends. Supervisor and warden share the
lifetime lock. The command, and everything it starts, inherits a second lock: while that is held, a process of the tree
is left; when it is free, all are gone or have closed it. Where a cgroup can be made, the tree runs in it, and the
lifetime lock's file names the cgroup's folder.
"""

from __future__ import annotations

import fcntl
import os

from ..errors import StoreUnreachable
from . import cgroup
from .durable import is_older, private_folder, remove
from .identity import new_id

TREE = ".tree"  # added to the name of a lifetime lock: the lock that the tree inherits

_OUT_OF_THE_WAY = 200  # the lowest number for the inherited descriptor: scripts use low numbers themselves


class Lifetime:
    """The lifetime lock of one grant. The grant's id is made here, before the acquire, so that the acquire can be sent
    again."""

    def __init__(self, folder: str) -> None:
        self.grant = new_id()
        self.path = os.path.join(folder, "live", self.grant)
        try:
            private_folder(os.path.dirname(self.path))
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnreachable(
                f"the folder {folder} cannot be written: {error.strerror}. It holds the locks that prove which holders "
                f"are alive; make it writable, or name another store with --store sqlite:////path/to/file"
            ) from error
        self._tree_fd = -1
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    @classmethod
    def shared(cls, path: str, grant: str, fd: int) -> Lifetime:
        """The same lock in another process, which got its descriptor."""
        lifetime = cls.__new__(cls)
        lifetime.path, lifetime.grant, lifetime._fd, lifetime._tree_fd = path, grant, fd, -1
        return lifetime

    def fileno(self) -> int:
        return self._fd

    def enclose(self) -> str:
        """Take the lock that the tree inherits; called by the warden before it starts anything. Returns the folder of a
        cgroup to start the command in, "" where none can be made."""
        fd = os.open(self.path + TREE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            self._tree_fd = fcntl.fcntl(fd, fcntl.F_DUPFD, _OUT_OF_THE_WAY)
        except OSError:
            os.set_inheritable(fd, True)  # the limit on descriptors is lower than that
            self._tree_fd = fd
        else:
            os.close(fd)
        group = cgroup.make(self.grant)
        name = os.fsencode(group)
        try:
            written = os.write(self._fd, name)
        except OSError:
            written = -1  # the disk is full
        if written == len(name):
            return group
        self.without_cgroup()  # a challenger would not find it
        cgroup.remove(group)
        return ""

    @property
    def cgroup(self) -> str:
        """The folder of the cgroup that the warden has made; "" if it made none."""
        return cgroup_of(self.path)

    def without_cgroup(self) -> None:
        """The command is not in the cgroup that `enclose` made, so an empty cgroup must not count as proof."""
        os.ftruncate(self._fd, 0)

    def end(self) -> None:
        """Remove the files, after the grant was released. (Otherwise they stay, so that a challenger can prove that the
        holder is gone.)"""
        try:
            forget(self.path)
        except OSError:
            pass  # a disk that has become read-only: the lock is free all the same
        self.close()

    def close(self) -> None:
        """Close the locks in this process; each stays held while another process has it."""
        for fd in (self._fd, self._tree_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._tree_fd = -1


def is_over(path: str) -> bool:
    """Is the holder of this lock gone? A missing file proves nothing."""
    return is_free(path) is True


def is_free(path: str) -> bool | None:
    """Is the lock free? None if the file does not exist."""
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
    """The cgroup's folder that the lifetime lock at `path` names; "" if it names none."""
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


def sweep(folder: str, older_than: float) -> None:
    """Remove the locks of holders that are gone, if older than `older_than` seconds. A lease that still names one is
    free when its TTL has passed."""
    try:
        entries = list(os.scandir(os.path.join(folder, "live")))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.endswith(TREE) or not is_older(entry, older_than):
            continue
        if is_over(entry.path) and is_free(entry.path + TREE) is not False:
            forget(entry.path)


def forget(path: str) -> None:
    cgroup.remove(cgroup_of(path))
    remove(path + TREE)
    remove(path)
