"""What was used on a day and how attempts ended, by job, host, model, tag and status: reports and caps are a sum of a
few rows, and a year's report outlives the runs.

What an attempt has reported is added to these rows in the commit that ends it; until then its own reports are read.
Days are the ledger's: it has one time zone, recorded when it was made, so that machines in two zones do not spend one
day's cap twice.
"""

from __future__ import annotations

from operator import add

from ..core import statuses
from ..core.units import UNITS, Amounts
from ..core.value import replace, value
from ..system import zone
from .typed_table import TypedTable, amounts, counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .records import RunRow
    from .tables import ChainTransaction, Row, Tables


@value(frozen=True, kw_only=True)
class Tally:
    """A row; or a sum of rows, in which columns that it is not grouped by are ""."""

    job: str = ""
    day: str = ""
    host: str = ""
    model: str = ""
    tag: str = ""
    status: str = ""  # that the attempts ended with; "running": they have not ended
    attempts: int = 0
    runs: int = 0  # that ended with these attempts: no other attempt follows by itself
    elapsed: float = 0.0  # seconds
    items: int = 0  # that were done, as far as progress was reported
    amounts: Amounts = Amounts()


KEY = ("job", "day", "host", "model", "tag", "status")
_COUNTS = ("attempts", "runs", "elapsed", "items", *UNITS)
TALLY = TypedTable(
    "tally",
    Tally,
    f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET "
    + ", ".join(f"{name} = tally.{name} + excluded.{name}" for name in _COUNTS),
)

FAILED = "failed"  # for `sums`, as if it were a column: runs that did not end well
_BAD_ENDS = ", ".join(f"'{status}'" for status in (*statuses.FAILURES, *statuses.NEEDS_PERSON))
_SUMMED = {FAILED: f"CASE WHEN status IN ({_BAD_ENDS}) THEN runs ELSE 0 END"}
_MANY_DAYS = 45 * 86_400_000  # ms; see `sums`
MOST_TAGS = 200  # of a job on a day; the rest is summed as OTHER
OTHER = "other"
NO_END = "9"  # sorts after every day: days are compared as text

_NOTHING = Amounts()
BUCKET = zone.QUARTER  # usage is summed by quarters of an hour, and then by days
_SUMS = ", ".join(f"CAST(COALESCE(SUM({unit}), 0) AS BIGINT)" for unit in UNITS)
_OF_ATTEMPT = f"""
SELECT at / :bucket, model, tag, {_SUMS} FROM {{prefix}}usage WHERE run = :run AND attempt = :attempt
GROUP BY at / :bucket, model, tag ORDER BY 1, 2, 3
"""
_TAGS = "SELECT DISTINCT tag FROM {prefix}tally WHERE job = :job AND day = :day AND tag <> '' LIMIT :most"


def close_attempt(
    tables: Tables,
    chain: ChainTransaction,
    run: RunRow,
    status: str,
    *,
    at: int,
    elapsed: float,
    run_ended: bool,
    used: bool,
) -> None:
    """Count the newest attempt of a run, in the transaction that ends it. `run_ended`: the run has ended with it.
    `used`: it may have reported usage."""
    nothing: tuple[int, ...] = (0,) * len(UNITS)
    tags: dict[str, set[str]] = {}  # by day, as far as they were read
    found = {(tables.day(at), "", ""): (1, int(run_ended), round(elapsed * 1000), run.done, *nothing)}
    reports = chain(_OF_ATTEMPT, run=run.id, attempt=run.attempt, bucket=BUCKET) if used else ()
    for bucket, model, tag, *parts in reports:
        day = tables.day(bucket * BUCKET)
        key = day, model, _tag(chain, run.job, day, tag, tags) if tag else ""
        before = found.get(key, (0, 0, 0, 0, *nothing))
        found[key] = (*before[:4], *map(add, before[4:], parts))
    for (day, model, tag), counted in found.items():
        chain.insert(TALLY, [(run.job, day, run.host, model, tag, status, *counted)])


def _tag(chain: ChainTransaction, job: str, day: str, tag: str, known: dict[str, set[str]]) -> str:
    """The tag, or OTHER if the job has too many of them on that day."""
    if day not in known:
        known[day] = {found for (found,) in chain(_TAGS, job=job, day=day, most=MOST_TAGS + 1)}
    if tag not in known[day] and len(known[day] - {OTHER}) >= MOST_TAGS:
        tag = OTHER
    known[day].add(tag)
    return tag


def of_attempt(run: RunRow, day: str, status: str, elapsed: float, *, run_ended: bool) -> Tally:
    """The row that counts an attempt that has ended."""
    return Tally(
        job=run.job, day=day, host=run.host, status=status, attempts=1, runs=int(run_ended), elapsed=elapsed,
        items=run.done,
    )  # fmt: skip


def merged_by_key(rows: Iterable[Tally]) -> list[Tally]:
    """One row for each key: one statement must not change a row twice."""
    found: dict[tuple[str, ...], Tally] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in KEY)
        found[key] = _plus(found[key], row) if key in found else row
    return list(found.values())


def report(
    tables: Tables,
    by: Sequence[str],
    *,
    since: str = "",
    until: str = NO_END,
    running: bool = True,
) -> list[Tally]:
    """Sums by these columns of KEY, of days from `since` to `until`, in the columns' order; with `running` also of
    attempts that have not ended, by what they have reported so far."""
    found = sums(tables, by, _COUNTS, since=since, until=until, running=running)
    return [_read(by, row) for row in sorted(found)]


def sums(
    tables: Tables, by: Sequence[str], columns: Sequence[str], *, job: str | None = None, since: str = "",
    until: str = NO_END, running: bool = True,
) -> list[Row]:  # fmt: skip
    """`report` as plain rows, of these columns only and in no order, since a table of days and jobs has thousands of
    rows; without those that are 0 in all columns. A column is one of the table, or FAILED; amounts are whole parts."""
    which, values = _which(job)
    of_columns = [f"SUM({_SUMMED.get(name, name)})" for name in columns]
    totals = ", ".join(f"CAST({one} AS BIGINT)" for one in of_columns)
    # Few days are read by the index of days. For many, a walk through the table is faster; PostgreSQL knows that by
    # itself. If the groups come in the order in which it reads, SQLite need not sort.
    few = bool(job) or since > tables.day(tables.now() - _MANY_DAYS)
    day = "day" if few else "{unindexed}day"
    order = sorted(by, key=lambda name: (name != "day" or not few or bool(job), KEY.index(name)))
    group = f" GROUP BY {', '.join(order)} HAVING {' OR '.join(f'{one} <> 0' for one in of_columns)}" if by else ""
    which = f"{day} >= :since" + (f" AND {day} <= :until" if until != NO_END else "") + which
    sql = f"SELECT {', '.join((*by, totals))} FROM {{prefix}}tally WHERE {which}"
    found = tables.read(sql + group, **values, since=since, until=until)
    if not by:  # without GROUP BY there is always one row
        found = [row for row in found if any(row)]
    running_rows = [row for row in _running_rows(tables, job) if since <= row.day <= until] if running else []
    if running_rows:
        found = _with_running(found, running_rows, by, columns)
    return found


def _with_running(rows: list[Row], running_rows: list[Tally], by: Sequence[str], columns: Sequence[str]) -> list[Row]:
    size, nothing = len(by), (0,) * len(columns)
    known = {row[:size]: row[size:] for row in rows}
    for one in running_rows:
        key = tuple(getattr(one, name) for name in by)
        parts = counts(one.amounts.by_unit())
        more = tuple(parts.get(name, 0) for name in columns)
        if any(more):
            known[key] = tuple(map(sum, zip(known.get(key, nothing), more, strict=True)))
    return [(*key, *row) for key, row in known.items()]


def _running_rows(tables: Tables, job: str | None) -> list[Tally]:
    which, values = _which(job, "run.")
    sums = ", ".join(f"CAST(COALESCE(SUM(used.{unit}), 0) AS BIGINT)" for unit in UNITS)
    sql = (
        f"SELECT run.job, used.at / :bucket, run.host, used.model, used.tag, {sums} FROM {{prefix}}run AS run "
        f"JOIN {{prefix}}usage AS used ON used.run = run.id AND used.attempt = run.attempt "
        f"WHERE run.status = 'running'{which} GROUP BY run.job, used.at / :bucket, run.host, used.model, used.tag"
    )
    return [
        Tally(job=name, day=tables.day(bucket * BUCKET), host=host, model=model, tag=tag, status="running",
              amounts=amounts(dict(zip(UNITS, parts, strict=True))))
        for name, bucket, host, model, tag, *parts in tables.read(sql, **values, bucket=BUCKET)
    ]  # fmt: skip


def _which(job: str | None, table: str = "") -> tuple[str, dict[str, object]]:
    return (f" AND {table}job = :job", {"job": job}) if job else ("", {})


def _read(by: Sequence[str], row: Row) -> Tally:
    place = len(by)
    attempts, runs, elapsed, items, *parts = row[place:]
    used = amounts(dict(zip(UNITS, parts, strict=True))) if any(parts) else _NOTHING
    known = dict(zip(by, row, strict=False))
    return Tally(**known, attempts=attempts, runs=runs, elapsed=elapsed / 1000, items=items, amounts=used)


def _plus(one: Tally, other: Tally) -> Tally:
    both = counts(one.amounts.by_unit()), counts(other.amounts.by_unit())
    return replace(
        one,
        attempts=one.attempts + other.attempts,
        runs=one.runs + other.runs,
        elapsed=one.elapsed + other.elapsed,
        items=one.items + other.items,
        amounts=amounts({unit: both[0][unit] + both[1][unit] for unit in UNITS}),
    )
