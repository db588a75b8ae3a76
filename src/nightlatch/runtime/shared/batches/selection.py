"""Which items of a batch are to be done."""

from __future__ import annotations

from .items import ASIDE, DONE, DOUBT, SEEN, BatchItem, ItemReader
from .template import BadItem

_NAMED = 10  # duplicate items that the summary names


class Selection:
    """The items to do, and counts of the others: done, in doubt, repeated, unreadable.

    `known` maps digests to DONE, DOUBT or ASIDE; what was read is marked there as SEEN.
    """

    DONE, DOUBT, ASIDE = DONE, DOUBT, ASIDE

    def __init__(self, reader: ItemReader, known: dict[bytes, int]) -> None:
        self._reader, self._found, self._known = reader, reader.unfinished(known, self._skip), known
        self.skipped = self.doubled = 0  # `doubled`: items whose key had occurred before
        self.in_doubt: list[tuple[str, bytes]] = []  # (key, digest)
        self.set_aside: list[tuple[str, bytes]] = []
        self.bad: list[BadItem] = []  # lines that could not be read, until the caller has reported them
        self.duplicates: list[BatchItem] = []  # the first of the doubled items, which the summary names

    def next(self) -> BatchItem | None:
        """The next item to do; None when there is none, or when a line could not be read: look at `bad` first."""
        known = self._known
        for found in self._found:
            if isinstance(found, BadItem):
                self.bad.append(found)
                return None
            digest = found[2]
            status = known.get(digest, 0)
            try:
                item = self._reader.item(found)
            except BadItem as bad:
                self.bad.append(bad)
                return None
            if status & SEEN:
                self.doubled += 1
                if len(self.duplicates) < _NAMED:
                    self.duplicates.append(item)
                continue
            known[digest] = status | SEEN
            if not status:
                return item
            (self.in_doubt if status == DOUBT else self.set_aside).append((item.key, digest))
        self.exhausted = True
        return None

    def _skip(self, count: int) -> None:
        self.skipped += count

    exhausted = False  # has everything been read?
