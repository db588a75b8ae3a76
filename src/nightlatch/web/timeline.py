"""A night as rows, one for each job: bars for attempts, marks for slots that did not run and for refused writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from markupsafe import Markup

from ..core import statuses
from ..core.row import COLLAPSED, RAN, Row, SlotRecord
from ..core.value import value
from ..ledger.records import Entry
from ..ledger.slots import merged
from ..observe.figures import about, span
from ..observe.reader import StoreReader
from ..observe.run_views import RunView
from ..observe.slots import is_overdue
from .machines import MachineRow, Machines
from .svg import Track
from .words import BAD, DOUBT, IDLE, OK, RUN, WAIT, Calendar, look, used

_ATTEMPTS = 100  # so many runs are drawn with their earlier attempts
_ROWS = 60  # jobs that are drawn, the most urgent first
_BARS = 120  # runs that are drawn of a job: more bars could not be told apart
ORDER = (DOUBT, BAD, WAIT, RUN, OK, IDLE)  # colours, the most urgent first


@value(frozen=True, kw_only=True)
class TimelineRow:
    job: str
    picture: Markup
    note: str
    table: tuple[tuple[str, str, str], ...]  # (when, what, run): what the picture shows


@value(frozen=True, kw_only=True)
class NightTimeline:
    axis: Markup
    rows: tuple[TimelineRow, ...]
    machines: tuple[MachineRow, ...] = ()
    more: int = 0  # jobs that are not drawn


class Drawing:
    def __init__(self, reader: StoreReader, calendar: Calendar, begin: float, end: float, now: float | None) -> None:
        self._reader, self._calendar, self._begin, self._end = reader, calendar, begin, end
        self._hours = calendar.hours(begin, end)
        self._track = Track(begin, end, now=now, grid=[at for at, _ in self._hours])
        self._now = now if now is not None else end
        self._looked_up = 0  # runs whose earlier attempts were read
        self._machines = Machines(reader, begin, end)
        self._now_or_none = now  # the moment now; None: the night is over

    def night(self, runs: Sequence[RunView], refused: Iterable[Entry], rows: Iterable[Row], base: str) -> NightTimeline:
        jobs: dict[str, list[RunView]] = {}
        for view in runs:
            if not view.run.parent:
                jobs.setdefault(view.run.job, []).append(view)
        refusals: dict[str, list[Entry]] = {}
        for entry in refused:
            if self._begin <= entry.at < self._end:
                refusals.setdefault(entry.chain.removeprefix("job:"), []).append(entry)
        known = {row.job: row for row in rows}
        names = sorted(
            {*jobs, *refusals, *known}, key=lambda name: self._urgency(jobs.get(name, []), known.get(name), name)
        )
        shown = [name for name in names if name in jobs or name in refusals or self._is_late(known[name])]
        rest = [name for name in names if name not in set(shown)]
        names = [*shown, *rest][:_ROWS]
        drawn = [self._row(name, jobs.get(name, []), refusals.get(name, []), known.get(name), base) for name in names]
        return NightTimeline(
            axis=self._track.axis(self._hours),
            rows=tuple(row for row in drawn if row),
            more=max(len(shown) - _ROWS, 0),
            machines=tuple(self._machines.rows(self._track, self._now_or_none)),
        )

    def _urgency(self, runs: list[RunView], row: Row | None, name: str) -> tuple[int, str]:
        colours = [look(view.status)[1] for view in runs] + ([BAD] if self._is_late(row) else [])
        return min((ORDER.index(kind) for kind in colours), default=len(ORDER)), name

    def _row(
        self, job: str, runs: list[RunView], refused: list[Entry], row: Row | None, base: str
    ) -> TimelineRow | None:
        marks: list[Markup] = []
        table: list[tuple[str, str, str]] = []
        for view in sorted(runs, key=lambda view: view.run.created)[-_BARS:]:
            marks += self._attempts(view, base, table)
        records = self._records(job, row)
        for record in records:
            marks.append(self._slot(record, table))
        if row and self._is_late(row):
            title = f"{self._calendar.clock(row.next_due)} due, and not begun"
            marks.append(self._track.bar(row.next_due, self._now, "bad ghost", title, f"{base}job/{quote(row.job)}"))
            marks.append(self._track.diamond(row.next_due, BAD, title))
            table.append((self._calendar.clock(row.next_due), "overdue", ""))
        for entry in refused:
            title = f"{self._calendar.clock(entry.at)} a stale write was refused"
            run = entry.facts.get("run", "")
            marks.append(self._track.shield(entry.at, title, f"{base}run/{run}#refused" if run else ""))
            table.append((self._calendar.clock(entry.at), "a stale write was refused", run))
        if not marks:
            return None
        note = self._note(runs, records, row)
        label = f"{job}: " + "; ".join(f"{what} at {when}" for when, what, _ in sorted(table)[:6])
        return TimelineRow(job=job, picture=self._track.row(label, marks), note=note, table=tuple(sorted(table)))

    def _attempts(self, view: RunView, base: str, table: list[tuple[str, str, str]]) -> list[Markup]:
        run, (_, kind, word) = view.run, look(view.status)
        href = f"{base}run/{run.id}"
        marks = []
        if run.attempt > 1 and self._looked_up < _ATTEMPTS:
            self._looked_up += 1
            for one in self._reader.ledger.attempts(run.id)[:-1]:
                if (one.ended or one.started) < self._begin:
                    continue
                what = f"attempt {one.attempt} {look(one.status)[2]}"
                title = (
                    f"{self._calendar.clock(one.started)} {run.job}, attempt {one.attempt} on {one.holder.host}: {what}"
                )
                end = one.ended if one.ended is not None else one.started + one.elapsed
                self._machines.note_active(one.holder.host, one.started, end)
                marks.append(self._track.bar(one.started, end, f"{look(one.status)[1]} thin", title, href))
                table.append((self._calendar.clock(one.started), what, run.id))
        if run.started is None:
            return marks
        end = run.ended if run.ended is not None else (run.changed if run.status != statuses.RUNNING else self._now)
        if end < self._begin and not statuses.needs_person(run.status):
            return marks
        self._machines.note_active(run.holder.host, run.started, end)
        took = span(max(end - run.started, 0.0))
        title = f"{self._calendar.clock(run.started)} {run.job}: {word}, {took}"
        marks.append(self._track.bar(run.started, end, kind, title, href))
        table.append((self._calendar.clock(run.started), f"{word}, {took}", run.id))
        if run.status in (statuses.WAITING, statuses.NEEDS_ATTENTION) and end < self._now:
            waits = f"waits since {self._calendar.clock(end)}"
            marks.append(self._track.bar(end, self._now, f"{kind} ghost", waits, href))
        if view.status == statuses.IN_DOUBT and end >= self._begin:
            marks.append(self._track.question(end, f"{self._calendar.clock(end)} in doubt", href))
        return marks

    def _records(self, job: str, row: Row | None) -> list[SlotRecord]:
        if row is None:
            return []
        found = merged(self._reader.ledger.slots.of(job, self._begin), row.records)
        return [one for one in found if one.outcome != RAN and self._begin <= one.last < self._end]

    def _slot(self, record: SlotRecord, table: list[tuple[str, str, str]]) -> Markup:
        many = f" ({record.count} slots)" if record.count > 1 else ""
        when = self._calendar.clock(record.last)
        if record.outcome == COLLAPSED:
            table.append((when, f"collapsed into a later one{many}", ""))
            return self._track.chevron(record.last, IDLE, f"{when} collapsed into a later one{many}")
        table.append((when, f"skipped: {record.reason}{many}", ""))
        return self._track.diamond(record.last, IDLE, f"{when} skipped: {record.reason}{many}")

    def _is_late(self, row: Row | None) -> bool:
        return row is not None and self._now_or_none is not None and is_overdue(row, self._now)

    def _note(self, runs: list[RunView], records: list[SlotRecord], row: Row | None) -> str:
        if row and self._is_late(row):
            return f"{about(self._now - row.next_due)} late"
        if not runs:
            return "paused" if row and row.paused else records[-1].outcome if records else ""
        newest = max(runs, key=lambda view: view.run.changed)
        word = look(newest.status)[2]
        if newest.status == statuses.WAITING:
            return f"waits {about(self._now - newest.run.changed)}"
        if newest.status not in (statuses.SUCCEEDED, statuses.RUNNING):
            return word
        ended = [view.run.elapsed for view in runs if view.run.ended is not None]
        if len(runs) > 1 and ended:
            return f"{len(runs)} × {about(sum(ended) / len(ended))}"
        started = newest.run.started or newest.run.created
        took = about(self._now - started if newest.status == statuses.RUNNING else newest.run.elapsed)
        cost = used(newest.run.usage) if newest.run.usage.usd else ""
        return " · ".join(filter(None, (took, cost)))
