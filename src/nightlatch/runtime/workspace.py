"""A workspace: a fresh, private folder for each attempt, so that two attempts never write in one place.

It is removed when the run succeeded. Otherwise it is kept for whoever looks, until it is old or all of
them together are large; that is seen to when a later workspace is made.
"""

from __future__ import annotations

import fcntl
import os

from ..system import clock, durable, treecopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clone import Source

KEPT_FOR = 7 * 86400.0  # seconds
KEPT_SIZE = 5 << 30  # bytes of all that are kept

_YOUNG = 60.0  # seconds: one that is just being made is not locked yet


class Workspace:
    """The folder at `path`, in use by this process as long as it has it open."""

    def __init__(self, path: str, commit: str = "") -> None:
        self.path = path
        self.commit = commit  # git: what the branch had when it was cloned; "" if nothing
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def make(cls, folder: str, name: str, source: Source | None) -> Workspace:
        """An empty one, or a clone of `source`. `folder` is the store's on this machine."""
        home = durable.private_folder(os.path.join(folder, "workspaces"))
        _clean(home)
        path = os.path.join(home, name)
        # (run, attempt) is ours by the ledger's seal: what stands there was left by a ledger that was set back.
        treecopy.remove(path)
        os.mkdir(path, 0o700)
        made = cls(path)
        if source:
            from . import clone

            made.commit = clone.into(path, source)
        return made

    @classmethod
    def left(cls, path: str) -> Workspace | None:
        """The one that an earlier attempt left on this machine; None if it is gone or in use."""
        try:
            return cls(path)
        except OSError:
            return None

    def remove(self) -> None:
        treecopy.remove(self.path)
        self.close()

    def close(self) -> None:
        """Leave it where it is, to be looked at, and to be cleaned away some day."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _clean(home: str) -> None:
    """Remove what nobody uses and is old; then the oldest, until the rest is small enough."""
    kept = []
    for entry in os.scandir(home):
        try:
            age = clock.wall() - entry.stat(follow_symlinks=False).st_mtime
        except FileNotFoundError:
            continue  # another run cleans too
        if age > KEPT_FOR:
            _remove_unused(entry.path)
        elif age > _YOUNG:
            kept.append((age, entry.path))
    total = 0
    for _, path in sorted(kept):  # the youngest first: those are what a person wants to look at
        total += _size(path)
        if total > KEPT_SIZE:
            _remove_unused(path)


def _remove_unused(path: str) -> None:
    unused = Workspace.left(path)
    if unused:
        unused.remove()


def _size(path: str) -> int:
    """Bytes on the disk. A file that has other names too (a clone shares its objects so) takes no room of its own."""
    total = 0
    for base, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(base, name))
            except OSError:
                continue
            total += status.st_blocks * 512 if status.st_nlink == 1 else 0
    return total
