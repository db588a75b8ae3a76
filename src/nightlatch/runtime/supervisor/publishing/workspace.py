"""A workspace: a fresh, private folder for each attempt, so that two attempts never write in one place.

It is removed when the run succeeded. Otherwise it is kept for a person to look at, until it is old or all
workspaces together are too large; making a new workspace cleans up.
"""

from __future__ import annotations

import fcntl
import os
import sys

from ....errors import StoreUnreachable
from ....system import clock, durable, treecopy
from .guard import guard_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clone import Source

KEPT_FOR = 7 * 86400.0  # seconds
KEPT_SIZE = 5 << 30  # bytes of all kept workspaces together

_YOUNG = 60.0  # seconds; a younger workspace may be in the making, and not locked yet


class Workspace:
    """The folder at `path`; an open descriptor locks it for this process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.commit = ""  # of a clone: the branch's tip when it was cloned, "" if the branch was empty
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def guard(self) -> str:
        """The folder with the settings of our own git commands, which the command cannot change."""
        return guard_of(self.path)

    @classmethod
    def make(cls, folder: str, name: str, source: Source | None) -> Workspace:
        """Make an empty workspace, or a clone of `source`. `folder` is the store's on this machine."""
        path = os.path.join(folder, "workspaces", name)
        try:
            durable.private_folder(os.path.dirname(path))
            clean(folder)
            # The ledger's seal gave this (run, attempt) to us alone: what is here is from before a ledger was restored.
            treecopy.remove(path)
            treecopy.remove(guard_of(path))
            os.mkdir(path, 0o700)
            workspace = cls(path)
        except OSError as error:
            raise StoreUnreachable(f"the workspace {path} could not be made: {error.strerror}") from error
        if source:
            from . import clone

            workspace.commit = clone.into(path, source)
        return workspace

    @classmethod
    def left_at(cls, path: str) -> Workspace | None:
        """The workspace that an earlier attempt left at `path`; None if it is gone or in use."""
        try:
            return cls(path)
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the workspace. A failure is only printed: it must not undo the run's success."""
        try:
            treecopy.remove(self.path)
            treecopy.remove(self.guard)
        except OSError as error:
            where = error.filename or self.path
            print(f"nightlatch: the workspace {self.path} stays: {where}: {error.strerror}", file=sys.stderr)
        self.close()

    def close(self) -> None:
        """Unlock the workspace, and leave it for a person to look at; a later clean-up removes it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def enclosing(folder: str, path: str) -> str:
    """The workspace of the store's `folder` that `path` is in; "" if it is in none."""
    home = os.path.join(os.path.realpath(folder), "workspaces") + "/"
    rest = os.path.realpath(path).removeprefix(home)
    return "" if os.path.isabs(rest) or not rest else home + rest.partition("/")[0]


def clean(folder: str, kept_for: float = KEPT_FOR, *, dry: bool = False) -> list[str]:
    """Remove unused workspaces that are old; then the oldest, until the rest is small enough. Returns their paths.
    `dry`: remove nothing."""
    home = os.path.join(folder, "workspaces")
    to_remove, rest = [], []
    pinned = pins(folder)
    for entry in os.scandir(home) if os.path.isdir(home) else ():
        if entry.name in pinned:
            continue
        try:
            age = clock.wall() - entry.stat(follow_symlinks=False).st_mtime
        except FileNotFoundError:
            continue  # another run has removed it
        if age > kept_for:
            to_remove.append(entry.path)
        elif age > _YOUNG:
            rest.append((age, entry.path))
    total = 0
    for _, path in sorted(rest):  # the youngest first: a person is more likely to look at those
        total += _size(path)
        if total > KEPT_SIZE:
            to_remove.append(path)
    return [path for path in to_remove if _remove_unused(path, dry)]


def pin(path: str) -> None:
    """Keep a workspace, however old it gets and however large the others: somebody has to decide about it."""
    durable.replace(_pin_of(path), b"")


def unpin(path: str) -> None:
    try:
        os.unlink(_pin_of(path))
    except FileNotFoundError:
        pass


def pins(folder: str) -> set[str]:
    """The names of the pinned workspaces; each begins with its run's id."""
    try:
        return set(os.listdir(os.path.join(folder, "pins")))
    except FileNotFoundError:
        return set()


def _pin_of(path: str) -> str:
    home, name = os.path.split(path)
    return os.path.join(durable.private_folder(os.path.join(os.path.dirname(home), "pins")), name)


def _remove_unused(path: str, dry: bool) -> bool:
    unused = Workspace.left_at(path)
    if unused is None:
        return False
    if dry:
        unused.close()
    else:
        unused.remove()
    return True


def _size(path: str) -> int:
    """Bytes on the disk. Hard-linked files do not count: clones share objects that way."""
    total = 0
    for base, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(base, name))
            except OSError:
                continue
            total += status.st_blocks * 512 if status.st_nlink == 1 else 0
    return total
