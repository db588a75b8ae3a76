"""Usage: by day and job, what each job uses, and what changed before a job got expensive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup

from ..observe import usage_report, verdict
from ..observe.changes import LevelChange, job_changes
from ..observe.figures import money, percent
from ..observe.reader import StoreReader
from ..observe.usage_report import UsageReport
from ..system import clock
from . import svg
from .usage_chart import chart
from .words import Calendar

DAYS = 30
BY = ("job", "model", "tag", "host")
_COLOURS = 3  # so many jobs have their own colour in the chart
_ROWS = 50  # of the table; the others are summed
_KEPT = 20.0  # seconds before the report is computed again
_CHECKED = 8  # so many jobs, the dearest first, are checked for a rise


def page(reader: StoreReader, calendar: Calendar, by: str) -> dict[str, Any]:
    by = by if by in BY else "job"
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    since = (today - timedelta(days=DAYS - 1)).isoformat()
    report = page_report(reader, by)
    dearer = _jobs_that_got_dearer(reader) if by == "job" else []
    first = None
    if dearer:
        job, change = dearer[0]
        first = verdict.Dearer(job=job, factor=change.shift.factor, since=calendar.date(change.shift.first.at))
    named = [first.job] if first else []
    named += [row.by[0] for row in report.rows if row.by[0] not in named]
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]
    return {
        "sentence": verdict.usage(report.total.amounts.usd, f"{DAYS} days", dearer=first).sentence.partition(". "),
        "eyebrow": f"{_day(since)} to {_day(today.isoformat())}",
        "report": report,
        "shown": report.rows[:_ROWS],
        "rest": _rest(report.rows[_ROWS:]),
        "days_of": _days_of,
        "by": by,
        "bys": BY,
        "pace": report.pace,
        "chart": chart(reader, by, days, named[:_COLOURS], _flag(reader, dearer)) if report.total.amounts.usd else "",
        "legend": [name or "–" for name in named[:_COLOURS]],
        "others": max(len(report.rows) - _COLOURS, 0),
        "got_dearer": [(job, one, _parts(one)) for job, one in dearer],
        "since": since,
        "percent": percent,
    }


def _rest(rows: Sequence[Any]) -> dict[str, float] | None:
    """The rows that are not listed, summed in one; the CSV has them all."""
    if not rows:
        return None
    usd, share = sum(row.amounts.usd for row in rows), sum(row.share or 0.0 for row in rows)
    return {"many": len(rows), "usd": usd, "share": share, "runs": sum(row.runs for row in rows),
            "failed": sum(row.failed for row in rows)}  # fmt: skip


def _days_of(row: Any) -> Markup:
    top = max(row.daily) or 1.0
    bars = [("dim", usd / top) for usd in row.daily[:-1]] + [("last", row.daily[-1] / top)]
    return svg.strip(bars, slots=len(bars), label=f"The last 14 days of {row.by[0]}")


def _day(day: str) -> str:
    return date.fromisoformat(day).strftime("%-d %B")


def _flag(reader: StoreReader, dearer: list[tuple[str, LevelChange]]) -> tuple[str, str]:
    """(day, label) of where the first of these jobs got expensive; two empty texts if none did."""
    for job, change in dearer:
        day = reader.ledger.history.day(change.shift.first.at)
        return day, f"{job}: since {date.fromisoformat(day):%-d %b}"
    return "", ""


def _jobs_that_got_dearer(reader: StoreReader) -> list[tuple[str, LevelChange]]:
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    used = reader.ledger.history.usd_by("job", since=(today - timedelta(days=7)).isoformat())
    return [
        (job, change)
        for job, _ in sorted(used, key=lambda row: (-row[1], row[0]))[:_CHECKED]
        for change in job_changes(reader, job, "usd").current
        if change.shift.factor > 1
    ]


def _parts(change: LevelChange) -> list[tuple[str, str]]:
    return [(money(usd), cause) for cause, usd in change.parts.items() if abs(usd) >= 0.005]


def csv(reader: StoreReader, by: str) -> str:
    """The table below the chart, for a spreadsheet."""
    return usage_report.as_csv(page_report(reader, by))


def page_report(reader: StoreReader, by: str) -> UsageReport:
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    since = (today - timedelta(days=DAYS - 1)).isoformat()
    by = by if by in BY else "job"
    return reader.cached(
        ("usage", by, since), _KEPT, lambda: usage_report.report(reader, (by,), since=since, usual=_ROWS)
    )
