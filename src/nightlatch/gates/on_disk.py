"""What file and folder gates share: their marks are beside the target, and their URL is its path."""

from __future__ import annotations

import os

from ..errors import UsageError
from ..system import durable
from . import address
from .marks import Marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from ..core.fence import KeptMark, Landing, Refusal
    from ..core.model import KnownGrants, Mark


class OnDisk:
    SCHEME: str

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = address.to_url(self.SCHEME, path)
        self._marks = Marks(path, self._target_id)
        self.registered: Mark | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        return cls(address.to_path(url))

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Refuse every older grant from now on; returns the previous mark."""
        with self._marks.locked():
            before = self._marks.admit(mark, by, known)
            self._marks.sweep()
            # The last writer may have been killed after its rename and before its flush. The new holder may build
            # on what it wrote, so flush it now.
            durable.fsync_folder(self._marks.parent)
        return before

    def has_mark(self, lease: str) -> bool:
        """Has a holder of `lease` sealed this target?"""
        return lease in self.standing()

    def expect_mark(self, lease: str) -> None:
        """Count the target as unreachable if the mark of `lease` is missing: a holder has sealed it before."""
        self._marks.expected.add(lease)

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""
        return self._marks.read()

    def landings(self) -> tuple[Landing, ...]:
        """The writes that landed here through the gate, the oldest first, as far as they are kept."""
        return self._marks.landings()

    def _target_id(self) -> str:
        """An id of what is at the path now, different after each write: a folder's release, or a file's inode.

        Both kinds of gate compute it, since they share their marks.
        """
        try:
            return os.path.basename(os.readlink(self.path))
        except OSError:
            pass
        try:
            return str(os.stat(self.path).st_ino)
        except FileNotFoundError:
            return ""

    def refusals(self) -> list[Refusal]:
        """The refusals at this target, the oldest first."""
        return self._marks.refusals()

    def adopt(self, store: str) -> int:
        """Make another store's marks this store's; returns how many there were."""
        return self._marks.adopt(store)


def check_outside_releases(path: str) -> None:
    """Raise `UsageError` if `path` is in a folder that is published as a whole: the next release would not have it."""
    if folder := _published_folder(path):
        raise UsageError(
            f"{path} is in {folder}, which is published as a whole: what is written into a release of it is gone "
            f"with the next one. Publish it as a part of that folder, or to a path outside it"
        )


def _published_folder(path: str) -> str:
    """The path of the folder gate that has `path` in one of its releases; "" if there is none."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        home, release = os.path.split(folder)
        token, _, number = release.partition("-")
        if home.endswith(".releases") and token.isdecimal() and number.isdecimal():
            return home.removesuffix(".releases")
        folder = home
    return ""
