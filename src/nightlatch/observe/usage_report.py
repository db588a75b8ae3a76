"""What runs have used, by job, day, model, step and so on: sums, shares, the usual run, a forecast for the month."""

from __future__ import annotations

import csv
import io
from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from statistics import median
from types import MappingProxyType
from typing import Any

from ..core.units import UNITS, Amounts
from ..core.value import made, replace, value
from ..ledger.tally import FAILED, NO_END
from ..ledger.typed_table import amounts
from ..system import clock
from .reader import StoreReader

BY = ("job", "day", "model", "step", "agent", "kind", "tag", "host")
REPORTED = ("step", "agent", "kind")  # only single reports have these columns; a report is removed with its run
WITH_REPORTED = (*REPORTED, "job", "model", "tag")  # columns that can be combined with those of REPORTED
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes text that begins so for a formula
_DAYS = 14  # the last days, which a sparkline shows and the pace is computed from
_RUNS = 20  # the last runs, whose medians are the usual run
_COLUMNS = ("runs", FAILED, "elapsed", "items", *UNITS)


@value(frozen=True, kw_only=True)
class UsageRow:
    by: tuple[str, ...]  # the job, day, model… that is summed, in the order of the report's `by`
    amounts: Amounts
    runs: int = 0
    failed: int = 0
    elapsed: float = 0.0
    items: int = 0
    share: float = 0.0  # of the money; where none was used, of the tokens, calls or units
    usual_run: Amounts | None = None  # the medians of the last runs; None in reports without them
    daily: tuple[float, ...] = ()  # in the unit of the share, for each of the last fourteen days


@value(frozen=True, kw_only=True)
class Pace:
    """What the month will cost at the pace of the last days."""

    month: str  # November
    used: float  # usd, so far
    expected: float


@value(frozen=True, kw_only=True)
class UsageReport:
    by: tuple[str, ...]
    since: str  # a day; "": from the beginning
    until: str
    unit: str  # in which the shares are computed
    rows: tuple[UsageRow, ...]  # the dearest first; by day: the oldest first
    total: UsageRow
    pace: Pace | None = None  # None if nothing was paid this month

    @property
    def units(self) -> list[str]:
        """The units of which something was used."""
        return [unit for unit, amount in self.total.amounts.by_unit().items() if amount]

    def facts(self) -> list[dict[str, object]]:
        """The fields of the JSON output, for each row."""
        return [
            {
                "version": 1,
                **dict(zip(self.by, row.by, strict=True)),
                **row.amounts.by_unit(),
                "runs": row.runs,
                "failed": row.failed,
                "seconds": row.elapsed,
                "items": row.items,
                "share": row.share,
            }
            for row in self.rows
        ]


def report(
    reader: StoreReader,
    by: Sequence[str] = ("job",),
    *,
    job: str | None = None,
    since: str = "",
    until: str = NO_END,
    usual: int | None = None,
) -> UsageReport:
    """What was used, summed by these columns. `since`, `until`: days in the ledger's zone, both included. `usual`: the
    usual run is computed for this many jobs, the dearest first; None: for all."""
    if _needs_reports(by):
        sums = _reported(reader, by, job, since, until)
    else:
        sums = reader.ledger.history.sums(by, _COLUMNS, job=job, since=since, until=until)
    size, zeros = len(by), (0,) * len(_COLUMNS)
    total = _row((), tuple(map(sum, zip(*(row[size:] for row in sums), strict=True))) or zeros)
    if "model" in by or "tag" in by:  # runs are counted in rows without a model or tag: leave those out
        sums = [row for row in sums if any(row[size + len(_COLUMNS) - len(UNITS) :])]
    unit = next((name for name, amount in total.amounts.by_unit().items() if amount), "usd")
    daily = _daily(reader, by, job, unit) if "day" not in by and not _needs_reports(by) else {}
    whole = getattr(total.amounts, unit)
    rows = [_row(row[:size], row[size:], unit, whole, daily) for row in sums]
    rows.sort(key=lambda row: row.by if "day" in by else (-row.share, -row.runs, row.by))
    if tuple(by) == ("job",):
        found = reader.ledger.history.amounts_of_runs([row.by[0] for row in rows[:usual]], most=_RUNS)
        for place, runs in enumerate(found):
            rows[place] = replace(rows[place], usual_run=_usual_run(runs))
    return UsageReport(
        by=tuple(by), since=since, until=until, unit=unit, rows=tuple(rows), total=total, pace=pace(reader, job)
    )


def as_csv(found: UsageReport) -> str:
    """For a spreadsheet, with a header. A text that a spreadsheet would take for a formula is quoted."""
    names = [*found.by, *UNITS, "runs", "failed", "seconds", "items", "share"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in found.facts():
        cells = [row[name] for name in names]
        writer.writerow([f"'{one}" if isinstance(one, str) and one[:1] in _FORMULA_STARTS else one for one in cells])
    return out.getvalue()


def pace(reader: StoreReader, job: str | None = None) -> Pace | None:
    """The forecast for this month, in the ledger's time zone, from what the last fourteen days used."""
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    first = today.replace(day=1)
    begin = min(first, today - timedelta(days=_DAYS - 1))
    sums = reader.ledger.history.sums(("day",), ("usd", "runs"), job=job, since=begin.isoformat())
    days = {day: usd / UNITS["usd"].scale for day, usd, _ in sums}
    used = sum(usd for day, usd in days.items() if day >= first.isoformat())
    if not used:
        return None
    recent = [usd for day, usd in days.items() if day > (today - timedelta(days=_DAYS)).isoformat()]
    days_known = (today - date.fromisoformat(min(days))).days + 1  # a job may be younger than fourteen days
    left = monthrange(today.year, today.month)[1] - today.day
    return Pace(month=today.strftime("%B"), used=used, expected=used + left * sum(recent) / min(days_known, _DAYS))


def _needs_reports(by: Sequence[str]) -> bool:
    return any(name in REPORTED for name in by)


def _reported(reader: StoreReader, by: Sequence[str], job: str | None, since: str, until: str) -> list[tuple[Any, ...]]:
    begin = _moment(since) if since else 0.0
    end = _moment(until) + 86400 if until != NO_END else clock.wall() + 86400
    unknown = (0,) * (len(_COLUMNS) - len(UNITS))
    size = len(by)
    return [(*row[:size], *unknown, *row[size:]) for row in reader.ledger.history.reports(by, begin, end, job)]


def _daily(reader: StoreReader, by: Sequence[str], job: str | None, unit: str) -> dict[tuple[str, ...], list[float]]:
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(_DAYS))]
    place, scale = {day: number for number, day in enumerate(days)}, UNITS[unit].scale
    found: dict[tuple[str, ...], list[float]] = {}
    for *key, day, parts in reader.ledger.history.sums((*by, "day"), (unit,), job=job, since=days[0], until=days[-1]):
        found.setdefault(tuple(key), [0.0] * _DAYS)[place[day]] += parts / scale
    return found


def _row(
    by: tuple[str, ...], sums: tuple[int, ...], unit: str = "", whole: float = 0.0,
    daily: Mapping[tuple[str, ...], Sequence[float]] = MappingProxyType({}),
) -> UsageRow:  # fmt: skip
    """`whole`: the total in `unit`, of which the row has a share. The total's own row is made without these two."""
    runs, failed, elapsed, items, *parts = sums
    used = amounts(dict(zip(UNITS, parts, strict=True)))
    share = getattr(used, unit) / whole if whole else 0.0 if unit else 1.0
    return made(
        UsageRow,
        {
            "by": by, "amounts": used, "runs": runs, "failed": failed, "elapsed": elapsed / 1000, "items": items,
            "share": share, "usual_run": None, "daily": tuple(daily[by]) if by in daily else (),
        },
    )  # fmt: skip


def _usual_run(runs: Sequence[tuple[int, ...]]) -> Amounts | None:
    medians = [median(parts) for parts in zip(*runs, strict=True)]
    return amounts(dict(zip(UNITS, medians, strict=True))) if runs else None


def _moment(day: str) -> float:
    return datetime.fromisoformat(day).timestamp()
