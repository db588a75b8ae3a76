"""What retention says that it removed from the journal, in one `cut` entry each time.

A forged cut could name any retention, so cuts are judged by heads that were kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..core.value import value
from . import kinds
from .chain import unpack
from .kept_heads import KeptHead
from .tables import Tables

Row = tuple[Any, ...]

_CUTS = f"SELECT chain, seq, at, body FROM {{prefix}}journal WHERE kind = '{kinds.CUT}' ORDER BY chain, seq"
_SKEW = 3_600_000  # ms by which a log line's clock may be wrong


@value(frozen=True, kw_only=True)
class RetentionCut:
    """What retention removed, according to one `cut` entry."""

    seq: int
    runs: frozenset[str]
    before: int  # ms; everything that was removed is older
    last: int  # the last entry removed from the job's chain; 0: none
    hash: str  # of that entry


def read(tables: Tables) -> list[Row]:
    """The cuts in the journal, as rows: the same rows later mean that nothing was removed in between."""
    return tables.read(_CUTS)


class Cuts:
    def __init__(self, rows: Iterable[Row]) -> None:
        self._by_chain: dict[str, list[RetentionCut]] = {}  # by job's chain
        self.newest: dict[str, RetentionCut] = {}  # job's chain → the newest cut that removed some of it
        for chain, seq, at, body in rows:
            try:
                self._note(chain, seq, at, unpack(body))
            except ValueError:
                pass  # malformed: the audit reports it when it comes to the entry

    def _note(self, chain: str, seq: int, at: int, facts: dict[str, str]) -> None:
        cut = RetentionCut(
            seq=seq,
            runs=frozenset(facts.get("runs", "").split()),
            before=int(facts.get("before", at)),
            last=int(facts.get("seq", 0)),
            hash=facts.get("hash", ""),
        )
        self._by_chain.setdefault(chain, []).append(cut)
        if cut.last:
            self.newest[chain] = cut

    def at(self, chain: str, seq: int) -> RetentionCut:
        """The cut that is this entry. KeyError if it is malformed, or newer than these cuts."""
        return {cut.seq: cut for cut in self._by_chain.get(chain, ())}[seq]

    def names(self, run: str, chain: str | None) -> bool:
        """Is the run among what a cut of its job's chain removed? `chain` None: of any chain."""
        chains = list(self._by_chain) if chain is None else [chain]
        return any(run in cut.runs for one in chains for cut in self._by_chain.get(one, ()))

    def behind(self, head: KeptHead) -> list[RetentionCut]:
        """The cuts that removed the head's entry from its job's chain."""
        return [cut for cut in self._by_chain.get(head.chain, ()) if cut.last > head.seq]

    def disproved(
        self, kept: Iterable[KeptHead], confirmed: Callable[[str], int], limit: float
    ) -> Iterator[tuple[str, int, str]]:
        """(chain, entry, what is wrong) of each cut that these heads disprove. `confirmed`: the newest entry of a chain
        that one of them confirmed. `limit`, in ms: what is younger may not have been removed."""
        for head in kept:
            cuts = self.behind(head)
            if cuts and head.at is not None and head.at >= max(cut.before for cut in cuts) + _SKEW:
                what = f"removes entry {head.seq}, which is younger than the retention that it names, says its log line"
                yield head.chain, cuts[-1].seq, what
        for chain in {head.chain for head in kept}:
            for cut in self._by_chain.get(chain, ()):
                if cut.before > limit and cut.seq > confirmed(chain):
                    what = "removes what is younger than the retention here, and no head kept elsewhere is newer"
                    yield chain, cut.seq, what
