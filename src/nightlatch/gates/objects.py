"""An object in an object store that only the newest holder can replace, on any number of machines."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable
from typing import BinaryIO

from ..core import fence
from ..core.fence import KeptMark, Landing, Refusal
from ..core.model import KnownGrants, Mark
from ..core.protocols import Bearer
from ..core.value import replace
from ..errors import Error, GateUnreachable, StaleToken, UsageError
from ..system import clock, identity
from . import releases
from .bearer import sealed_mark
from .bucket import Bucket
from .pointer import Cell, Pointer

KEEP = 5  # how many payloads to keep
_KEPT_REFUSALS = 16  # the pointer keeps that many


class Object:
    """The object `s3://bucket/key` (or gs://, az://), replaced as a whole.

    Each write puts its payload under a new key, `KEY.releases/TOKEN-…`, and then changes one
    small object, `KEY.nightlatch`, by compare-and-swap. That has the marks and the key of what is published.
    Readers follow it (`read`, or `key`); a plain GET of `KEY` finds nothing. `keep` payloads stay: those
    that rollbacks return to, then the newest. The payload of a writer that was killed stays too, and
    nothing ever points to it.

    A store that ignores the conditions of a put is refused before anything is written to it.
    """

    takes_folders, keeps_releases = False, True

    def __init__(self, url: str, *, keep: int = KEEP) -> None:
        self._bucket = Bucket(url)
        self.url = self._bucket.url
        self._key = self._bucket.key
        self._cell = Cell(self._bucket, f"{self._key}.nightlatch", self.url)
        self._keep = keep
        self._sealed: set[str] = set()  # grants under which this process has sealed it
        self.registered: Mark | None = None

    @classmethod
    def from_url(cls, url: str) -> Object:
        return cls(url)

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Refuse every older grant from now on; returns the previous mark."""
        before: Mark | None = None

        def decide(old: Pointer) -> Pointer | None:
            nonlocal before
            kept = old.marks.get(mark.name)
            before = kept.mark if kept else None
            return self._with_mark(old, mark, by, known)

        self._change(decide, by)
        self._sealed.add(mark.grant)
        return before

    def write(self, bearer: Bearer | Mark, content: bytes | str) -> str:
        """Replace the object's content; returns the new payload's key. `StaleToken` if a newer holder has sealed it."""
        return self._put(bearer, content.encode() if isinstance(content, str) else content, "")

    def publish(self, bearer: Bearer | Mark, source: str | os.PathLike[str] | int, *, digest: str = "") -> str:
        """Replace the object by a copy of `source`, a path or an open file; returns the new payload's key.

        `digest`, the sha256 of `source`, is remembered with the mark.
        """
        if not os.path.isfile(source):
            raise UsageError(f"{source} is not a file: an object is published from one (pack a folder first)")
        with open(os.dup(source) if isinstance(source, int) else source, "rb") as file:
            file.seek(0)
            return self._put(bearer, file, digest)

    def rollback(self, bearer: Bearer | Mark) -> str:
        """Point to what was live when the current release was published; returns its key."""
        mark, by = sealed_mark(self, bearer)
        previous = ""

        def roll_back(old: Pointer) -> Pointer:
            nonlocal previous
            marked = self._with_mark(old, mark, by) or old
            previous = releases.live_before(old.key, old.kept, old.before)
            if not previous:
                raise UsageError(f"{self.url} has no release before {old.key or 'the first one'} to go back to")
            return replace(marked, key=previous, landings=_with_landing(old, mark, fence.BACK))

        self._change(roll_back, by)
        return previous

    def read(self) -> bytes:
        """What is published. Raises FileNotFoundError if nothing is yet."""
        while key := self.key():
            found = self._bucket.get(key)
            if found is not None:
                return found[0]
            if self.key() == key:  # otherwise it was replaced and discarded meanwhile: read the new one
                raise GateUnreachable(f"{self.url} points to {key}, which somebody has removed. Publish again")
        raise FileNotFoundError(f"nothing is published at {self.url} yet")

    def release(self) -> str:
        """The live release, as `publish` returned it."""
        return self.key()

    def key(self) -> str:
        """The key, in the bucket, of what is published; "" if nothing is yet."""
        return self._cell.read()[0].key

    def landings(self) -> tuple[Landing, ...]:
        """The writes that landed here through the gate, the oldest first, as far as they are kept."""
        return self._cell.read()[0].landings

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""
        return self._cell.read()[0].marks

    def refusals(self) -> list[Refusal]:
        """The last refusals, the oldest first."""
        return list(self._cell.read()[0].refusals)

    def adopt(self, store: str) -> int:
        """Make another store's marks this store's; returns how many there were."""
        foreign = 0

        def with_adopted_marks(old: Pointer) -> Pointer | None:
            nonlocal foreign
            marks, foreign = fence.adopted(old.marks, store)
            return replace(old, marks=marks) if foreign else None

        self._cell.change(with_adopted_marks)
        return foreign

    def _put(self, bearer: Bearer | Mark, content: bytes | BinaryIO, digest: str) -> str:
        mark, by = sealed_mark(self, bearer)

        def check(old: Pointer) -> None:
            self._with_mark(old, mark, by)

        self._change(check, by)  # refuse before a large payload is sent
        key = f"{self._key}.releases/{mark.token}-{identity.new_id()}"
        dropped: tuple[str, ...] = ()

        def with_payload(old: Pointer) -> Pointer | None:
            nonlocal dropped
            if key in old.kept:
                return None  # an earlier try landed, and another holder changed the pointer since
            marked = self._with_mark(old, mark, by) or old
            names, history = (*old.kept, key), {**old.before, key: old.key}
            staying = releases.to_keep(key, names, history, self._keep)
            dropped = tuple(name for name in names if name not in staying)
            kept = tuple(name for name in names if name in staying)
            before = {name: history[name] for name in kept if name in history}
            return replace(marked, key=key, kept=kept, before=before, landings=_with_landing(old, mark, digest))

        self._bucket.put(key, content, mimetypes.guess_type(self._key)[0] or "application/octet-stream")
        try:
            self._change(with_payload, by)
        except (StaleToken, UsageError):
            self._bucket.discard(key)
            raise
        for name in dropped:
            self._bucket.discard(name)
        return key

    def _with_mark(self, old: Pointer, mark: Mark, by: str, known: KnownGrants | None = None) -> Pointer | None:
        """The pointer with the mark added; None if it is there already. Raises if the mark is refused."""
        fence.check_not_gone(self.url, old.marks, mark, self._sealed)
        if not fence.admit(self.url, old.marks, mark, known):
            self._sealed.add(mark.grant)
            return None
        return replace(old, marks={**old.marks, mark.name: fence.kept(mark, by, clock.wall())})

    def _change(self, decide: Callable[[Pointer], Pointer | None], by: str) -> None:
        try:
            self._cell.change(decide)
        except StaleToken as refused:
            refusal = Refusal.of(refused, by, clock.wall())
            try:
                self._cell.change(lambda old: replace(old, refusals=(*old.refusals, refusal)[-_KEPT_REFUSALS:]))
            except Error as error:
                refused.add_note(f"the refusal could not be recorded: {error}")
            raise


def _with_landing(old: Pointer, mark: Mark, digest: str) -> tuple[Landing, ...]:
    return (*old.landings, Landing(mark=mark, digest=digest, at=clock.wall()))[-fence.LANDINGS :]
