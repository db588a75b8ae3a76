"""What a job has used on a day, so that a cap of a day or a month is a sum of a few rows.

The row of a day is written where an attempt ends, from the attempt's reports, in the commit that ends it. What running
attempts have used is added from their reports. Days are the ledger's: it has one time zone, recorded when it was made,
so that machines in two zones do not pass one cap twice.
"""

from __future__ import annotations

from ..core.units import UNITS, Amounts
from ..core.value import value
from ..errors import UsageError
from .typed_table import TypedTable, amounts, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .records import RunRow, Usage
    from .tables import ChainTransaction, Row, Tables


@value(frozen=True, kw_only=True)
class Tally:
    job: str
    day: str
    amounts: Amounts


TALLY = TypedTable(
    "tally",
    Tally,
    "ON CONFLICT (job, day) DO UPDATE SET " + ", ".join(f"{unit} = tally.{unit} + excluded.{unit}" for unit in UNITS),
)

BUCKET = 900_000  # ms; time zones differ by quarters of an hour
_SUMS = ", ".join(f"CAST(COALESCE(SUM({unit}), 0) AS BIGINT)" for unit in UNITS)
_OF_ATTEMPT = f"""
SELECT at / :bucket, {_SUMS} FROM {{prefix}}usage WHERE run = :run AND attempt = :attempt GROUP BY at / :bucket
"""
_SINCE = "SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM {{prefix}}tally WHERE job = :job AND day >= :day"
# An attempt whose holder died is still called running: what it used counts, although nobody has ended it yet.
_RUNNING = """
SELECT CAST(COALESCE(SUM(used.{unit}), 0) AS BIGINT) FROM {{prefix}}run AS run
JOIN {{prefix}}usage AS used ON used.run = run.id AND used.attempt = run.attempt AND used.at >= :since
WHERE run.status = 'running' AND run.job = :job AND run.id <> :besides
"""
_OWN = """
SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM {{prefix}}usage
WHERE run = :run AND attempt = :attempt AND at >= :since
"""


def close_attempt(tables: Tables, chain: ChainTransaction, run: RunRow) -> None:
    """Add what the newest attempt of a run has used to its job's days, in the transaction that ends the attempt."""
    for row in _rows(tables, run.job, chain(_OF_ATTEMPT, run=run.id, attempt=run.attempt, bucket=BUCKET)):
        chain(TALLY.put, **dict(zip(TALLY.columns, row, strict=True)))


def used(tables: Tables, job: str, unit: str, period: str, besides: RunRow | None) -> float:
    """What a job has used in the current day or month, but for the newest attempt of `besides`."""
    _known(unit)
    day, since = tables.days.beginning(period)
    total: int = tables.read(_SINCE.format(unit=unit), job=job, day=day)[0][0]
    total += tables.read(_RUNNING.format(unit=unit), job=job, since=since, besides=besides.id if besides else "")[0][0]
    return amount(unit, total)


def own(tables: Tables, run: RunRow, unit: str, period: str) -> float | None:
    """What the newest attempt of a run has used in the current period; None if it began within it: then all of it."""
    _, since = tables.days.beginning(period)
    if run.started is not None and run.started * 1000 >= since:
        return None
    rows = tables.read(_OWN.format(unit=unit), run=run.id, attempt=run.attempt, since=since)
    return amount(unit, rows[0][0])


def usage(tables: Tables, job: str | None, since: int, *, by_day: bool) -> list[Usage]:
    """What was used since then, for each job, or for each job and day; the oldest day first."""
    from .records import Usage

    which = {"job": job} if job else {}
    sql = (
        f"SELECT job, at / :bucket, {_SUMS} FROM {{prefix}}usage{where(which, 'at >= :since')} "
        f"GROUP BY job, at / :bucket ORDER BY 2, 1"
    )
    totals: dict[tuple[str, str], list[int]] = {}
    for name, bucket, *parts in tables.read(sql, **which, since=since, bucket=BUCKET):
        day = tables.days.of(bucket * BUCKET) if by_day else ""
        total = totals.setdefault((day, name), [0] * len(parts))
        total[:] = map(sum, zip(total, parts, strict=True))
    return [
        Usage(job=name, day=day, **amounts(dict(zip(UNITS, total, strict=True))).by_unit())
        for (day, name), total in sorted(totals.items())
    ]


def amount(unit: str, parts: int) -> float:
    scale = UNITS[unit].scale
    return parts / scale if scale > 1 else parts


def _rows(tables: Tables, job: str, buckets: Iterable[Row]) -> list[Row]:
    days: dict[str, list[int]] = {}
    for bucket, *parts in buckets:
        day = days.setdefault(tables.days.of(bucket * BUCKET), [0] * len(parts))
        day[:] = map(sum, zip(day, parts, strict=True))
    return [
        TALLY.row(Tally(job=job, day=day, amounts=amounts(dict(zip(UNITS, parts, strict=True)))))
        for day, parts in days.items()
    ]


def _known(unit: str) -> None:
    if unit not in UNITS:
        raise UsageError(f"there is no unit {unit!r}: use one of {', '.join(UNITS)}")
