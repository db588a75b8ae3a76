"""A row for each machine above the night's timeline: awake from its first activity to its last, except while it
was asleep, which its scheduler notes on waking."""

from __future__ import annotations

from markupsafe import Markup

from ..core.value import value
from ..ledger import kinds
from ..ledger.records import Entry
from ..observe.figures import about
from ..observe.reader import StoreReader
from ..system import identity
from .svg import Track

_MOST = 8  # machines that are drawn


@value(frozen=True, kw_only=True)
class MachineRow:
    name: str
    picture: Markup
    note: str


class Machines:
    """When each machine was active or asleep, collected while a night is drawn."""

    def __init__(self, reader: StoreReader, begin: float, end: float) -> None:
        self._begin, self._end = begin, end
        self._active: dict[str, tuple[float, float]] = {}
        self._asleep: dict[str, list[tuple[float, float]]] = {}
        for entry in reader.ledger.journal.rare_entries(kinds.SLEPT, since=begin, most=500):
            host, slept, until = entry.facts.get("host", ""), _seconds(entry, "elapsed"), _seconds(entry, "until")
            if slept and begin < until and until - slept < end:
                self._asleep.setdefault(host, []).append((max(until - slept, begin), min(until, end)))
                self.note_active(host, until - slept, until)

    def note_active(self, host: str, begin: float, end: float) -> None:
        """The machine was active from `begin` to `end`."""
        if host and end >= self._begin and begin < self._end:
            first, last = self._active.get(host, (begin, end))
            self._active[host] = min(first, begin), max(last, end)

    def rows(self, track: Track, now: float | None) -> list[MachineRow]:
        if now is not None and self._active:
            self.note_active(identity.host(), now, now)  # this machine is awake: it draws the page
        return [self._row(host, track) for host in sorted(self._active)[:_MOST]]

    def _row(self, host: str, track: Track) -> MachineRow:
        begin, end = (min(max(at, self._begin), self._end) for at in self._active[host])
        spans, at = [], begin
        for down, up in sorted(self._asleep.get(host, ())):
            spans += [(at, down, True), (down, up, False)]
            at = up
        spans.append((at, end, True))
        asleep = sum(up - down for down, up, awake in spans if not awake)
        note = f"asleep {about(asleep)}" if asleep else "awake"
        return MachineRow(name=host, picture=track.machine_row(f"{host}: {note}", spans), note=note)


def _seconds(entry: Entry, fact: str) -> float:
    try:
        return float(entry.facts.get(fact, ""))
    except ValueError:
        return 0.0
