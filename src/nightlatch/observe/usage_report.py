"""What runs have used, by job, day, model, step and so on: sums, shares, a usual run, and where the month ends."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from statistics import median

from ..core import statuses
from ..core.units import UNITS, Amounts
from ..core.value import value
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ledger.tally import Tally
    from .reader import StoreReader

BY = ("job", "day", "model", "step", "agent", "kind", "tag", "host")
REPORTED = ("step", "agent", "kind")  # of single reports, which are kept as long as their runs
WITH_REPORTED = (*REPORTED, "job", "model", "tag")
NO_END = "9"  # after every day, as texts are compared
_DAYS = 14  # of a sparkline and a pace
_RUNS = 60  # from which the median of a run is computed


@value(frozen=True, kw_only=True)
class UsageRow:
    by: tuple[str, ...]  # what it is the sum of, in the report's order
    amounts: Amounts
    runs: int = 0
    failed: int = 0
    elapsed: float = 0.0
    items: int = 0
    share: float = 0.0  # of the money; where none was used, of the tokens, calls or units
    usual_run: Amounts | None = None  # the medians of a run; None in reports without them
    daily: tuple[float, ...] = ()  # what the share is of, for each of the last fourteen days


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
    unit: str  # of the shares
    rows: tuple[UsageRow, ...]  # the dearest first; by day: the oldest first
    total: UsageRow
    pace: Pace | None = None  # None if nothing was paid this month

    @property
    def units(self) -> list[str]:
        """The units of which something was used."""
        return [unit for unit, amount in self.total.amounts.by_unit().items() if amount]

    def facts(self) -> list[dict[str, object]]:
        """As JSON has it, a row each."""
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
    reader: StoreReader, by: Sequence[str] = ("job",), *, job: str | None = None, since: str = "", until: str = NO_END
) -> UsageReport:
    """`since`, `until`: days of the ledger's zone, both included."""
    found = _reported(reader, by, job, since, until) if _is_reported(by) else _tallies(reader, by, job, since, until)
    total = _sum((), found)
    if "model" in by or "tag" in by:  # runs are counted apart from them
        found = [row for row in found if any(row.amounts.by_unit().values())]
    unit = next((name for name, amount in total.amounts.by_unit().items() if amount), "usd")
    daily = _daily(reader, by, job, unit) if "day" not in by and not _is_reported(by) else {}
    rows = [_with_shares(reader, row, by, total, unit, daily, job) for row in found]
    rows.sort(key=lambda row: (row.by if "day" in by else (), -row.share, -row.runs, row.by))
    return UsageReport(
        by=tuple(by), since=since, until=until, unit=unit, rows=tuple(rows), total=total, pace=pace(reader, job)
    )


def pace(reader: StoreReader, job: str | None = None) -> Pace | None:
    """Of the current month of the ledger, by what the last fourteen days used."""
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    first = today.replace(day=1)
    begin = min(first, today - timedelta(days=_DAYS - 1))
    days = {row.day: row.amounts.usd for row in _of_days(reader, ("day",), job, begin.isoformat(), NO_END)}
    used = sum(usd for day, usd in days.items() if day >= first.isoformat())
    if not used:
        return None
    lately = [usd for day, usd in days.items() if day > (today - timedelta(days=_DAYS)).isoformat()]
    known = (today - date.fromisoformat(min(days))).days + 1  # a job may be younger than fourteen days
    left = monthrange(today.year, today.month)[1] - today.day
    return Pace(month=today.strftime("%B"), used=used, expected=used + left * sum(lately) / min(known, _DAYS))


def _of_days(reader: StoreReader, by: Sequence[str], job: str | None, since: str, until: str) -> list[Tally]:
    return reader.ledger.history.tallies(by, job=job, since=since, until=until)


def _tallies(reader: StoreReader, by: Sequence[str], job: str | None, since: str, until: str) -> list[UsageRow]:
    rows: dict[tuple[str, ...], UsageRow] = {}
    for row in _of_days(reader, (*by, "status"), job, since, until):
        key = tuple(getattr(row, name) for name in by)
        failed = row.runs if row.status in statuses.FAILURES or row.status in statuses.NEEDS_PERSON else 0
        one = UsageRow(by=key, amounts=row.amounts, runs=row.runs, failed=failed, elapsed=row.elapsed, items=row.items)
        rows[key] = _sum(key, (rows[key], one)) if key in rows else one
    return list(rows.values())


def _is_reported(by: Sequence[str]) -> bool:
    return any(name in REPORTED for name in by)


def _reported(reader: StoreReader, by: Sequence[str], job: str | None, since: str, until: str) -> list[UsageRow]:
    begin = _moment(since) if since else 0.0
    end = _moment(until) + 86400 if until != NO_END else clock.wall() + 86400
    return [UsageRow(by=key, amounts=used) for key, used in reader.ledger.history.reports(by, begin, end, job)]


def _daily(reader: StoreReader, by: Sequence[str], job: str | None, unit: str) -> dict[tuple[str, ...], list[float]]:
    today = date.fromisoformat(reader.ledger.history.day(clock.wall()))
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(_DAYS))]
    found: dict[tuple[str, ...], list[float]] = {}
    for row in _of_days(reader, (*by, "day"), job, days[0], days[-1]):
        key = tuple(getattr(row, name) for name in by)
        found.setdefault(key, [0.0] * _DAYS)[days.index(row.day)] += getattr(row.amounts, unit)
    return found


def _with_shares(
    reader: StoreReader, row: UsageRow, by: Sequence[str], total: UsageRow, unit: str,
    daily: dict[tuple[str, ...], list[float]], job: str | None,
) -> UsageRow:  # fmt: skip
    whole = getattr(total.amounts, unit)
    named = row.by[by.index("job")] if "job" in by else job
    usual = _usual_run(reader, named) if named and "day" not in by and not _is_reported(by) and len(by) == 1 else None
    return UsageRow(
        **row.__dict__ | {
            "share": getattr(row.amounts, unit) / whole if whole else 0.0,
            "usual_run": usual,
            "daily": tuple(daily.get(row.by, ())),
        }
    )  # fmt: skip


def _usual_run(reader: StoreReader, job: str) -> Amounts | None:
    ended = [point.amounts.by_unit() for point in reader.ledger.history.series(job, most=_RUNS)]
    return Amounts(**{unit: median(used[unit] for used in ended) for unit in UNITS}) if ended else None


def _sum(key: tuple[str, ...], rows: Sequence[UsageRow]) -> UsageRow:
    return UsageRow(
        by=key,
        amounts=Amounts(**{unit: sum(getattr(row.amounts, unit) for row in rows) for unit in UNITS}),
        runs=sum(row.runs for row in rows),
        failed=sum(row.failed for row in rows),
        elapsed=sum(row.elapsed for row in rows),
        items=sum(row.items for row in rows),
        share=1.0,
    )


def _moment(day: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(day).timestamp()
