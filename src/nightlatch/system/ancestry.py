"""Is this process a descendant of a warden? `env -i`, setsid and a double fork do not change the answer: environments
are not read, and a warden adopts its orphans. This stops mistakes, not malice: a user's processes can hide from each
other."""

from __future__ import annotations

import os

from .lifetime import TREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LIVE = "/live/"  # the folder of lifetime locks
_MOST_ANCESTORS = 100
_SHORTEST_GRANT = 16  # characters


def is_below_warden() -> bool:
    """Does this process or an ancestor have the lock open that a warden hands down to its tree? (A program that merely
    holds a lease has no such lock.)"""
    return any(_has_tree_lock(pid) for pid in _ancestors())


def _ancestors() -> Iterator[int]:
    """This process, its parent, its parent's parent, and so on."""
    pid = os.getpid()
    for _ in range(_MOST_ANCESTORS):
        yield pid
        pid = _parent(pid)
        if pid <= 1:
            return


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _has_tree_lock(pid: int) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False  # another user's process, or gone
    for name in names:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        folder, _, file = path.removesuffix(" (deleted)").rpartition(_LIVE)
        grant = file.removesuffix(TREE)
        if folder and grant != file and grant.isalnum() and len(grant) >= _SHORTEST_GRANT:
            return True
    return False
