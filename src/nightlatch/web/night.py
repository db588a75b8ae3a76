"""Any night: the timeline as on Now, what became of every slot, and links to the nights before and after."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from ..core import statuses
from ..core.row import RAN
from ..core.schedule import name_of
from ..errors import UsageError
from ..ledger import kinds
from ..ledger.slots import merged
from ..observe import verdict
from ..observe.reader import StoreReader
from ..observe.run_views import view
from ..observe.stages import all_rows
from ..system import clock
from .now import split
from .timeline import Drawing
from .words import Calendar

_MOST = 200  # runs read of each status


def page(reader: StoreReader, calendar: Calendar, day: str, base: str) -> dict[str, Any]:
    now = clock.wall()
    evening = calendar.day(calendar.evening(now, 0.0))
    try:
        first = date.fromisoformat(day or evening)
        if not 1970 <= first.year <= 9000:
            raise ValueError
        begin, end = calendar.night_of(first.isoformat())
    except (ValueError, OverflowError):
        raise UsageError(f"{day!r} is not a day, as in 2026-11-15") from None
    runs = [
        view(reader, run)
        for status in statuses.ALL
        for run in reader.ledger.history.runs(status=status, since=begin, until=end, limit=_MOST)
    ]
    jobs = all_rows(reader)
    refused = [one for one in reader.ledger.journal.rare_entries(kinds.REFUSED, since=begin, most=1000) if one.at < end]
    slots = [
        (row.job, record)
        for row in jobs
        for record in merged(reader.ledger.slots.of(row.job, begin), row.records)
        if begin <= record.last < end
    ]
    slots.sort(key=lambda one: one[1].last)
    ended = [one for one in runs if statuses.is_terminal(one.run.status)]
    facts = verdict.Night(
        slots=sum(record.count for _, record in slots),
        slots_ran=sum(record.count for _, record in slots if record.outcome == RAN),
        ended=len(ended),
        well=sum(one.run.status == statuses.SUCCEEDED for one in ended),
        usd=sum(one.run.usage.usd for one in runs),
        refused=len(refused),
    )
    headline = verdict.night(facts)
    drawn_until = min(end, max(now, begin + 3600))
    drawing = Drawing(reader, calendar, begin, drawn_until, now if now < end else None)
    return {
        "sentence": split(headline.sentence)[0],
        "reasons": headline.reasons,
        "day": first,
        "before": (first - timedelta(days=1)).isoformat(),
        "after": (first + timedelta(days=1)).isoformat() if first.isoformat() < evening else "",
        "night": drawing.night(runs, refused, jobs, base),
        "slots": slots,
        "slot_name": name_of,
        "begin": begin,
        "capped": any(sum(one.run.status == status for one in runs) == _MOST for status in statuses.ALL),
    }
