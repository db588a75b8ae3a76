"""A run's chain in outline: its beginning, the beginning of each of its last attempts, and its end. That shows what it
was started with, its bounds, how far it is and how it ended; so 100,000 entries take hardly longer than a few."""

from __future__ import annotations

from .records import ENTRY, Entry
from .tables import Tables

BEGIN, END = 60, 140  # entries
_ATTEMPTS, _PER_ATTEMPT = 3, 30  # how many of the last attempts, and how many entries of each

_FROM = "WHERE chain = :chain AND seq >= :seq ORDER BY seq LIMIT :most"
_LAST = "WHERE chain = :chain ORDER BY seq DESC LIMIT :most"
_AT = "SELECT seq, at FROM {prefix}journal WHERE chain = :chain AND seq >= :seq ORDER BY seq LIMIT 1"
_STARTED = "SELECT started FROM {prefix}attempt WHERE run = :run ORDER BY attempt DESC LIMIT :most"


def outline(tables: Tables, chain: str) -> list[Entry]:
    """Entries in order: all of a chain with up to `BEGIN + END` entries, a part of a longer one."""

    def part(which: str, **more: int) -> dict[int, Entry]:
        return {one.seq: one for one in tables.select(ENTRY, which, chain=chain, **more)}

    found = part(_LAST, most=END)
    if len(found) == END:
        end, begin = min(found), part(_FROM, seq=0, most=BEGIN)
        found |= begin
        if max(begin) < end - 1:
            for (at,) in tables.read(_STARTED, run=chain, most=_ATTEMPTS):
                found |= part(_FROM, seq=_first_at(tables, chain, at, 0, end), most=_PER_ATTEMPT)
    return [found[seq] for seq in sorted(found)]


def _first_at(tables: Tables, chain: str, at: int, low: int, high: int) -> int:
    """The number of the first entry at or after that time, by bisection: a chain is in the order of time."""
    while low < high:
        middle = (low + high) // 2
        ((seq, when),) = tables.read(_AT, chain=chain, seq=middle)
        if when < at:
            low = seq + 1
        else:
            high = middle
    return low
