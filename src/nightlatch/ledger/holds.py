"""Calls in flight: each is held, with the most it may come to, before it is forwarded.

A call that only its run's caps bound is held by one insert: a run has one accountant. Under a cap that several runs
share, the sum and the insert are one transaction, which takes the cap's row first: of two that would both fit into what
is left, the second one counts the first. What was settled meanwhile only lowers the sum.
"""

from __future__ import annotations

from ..core.value import value
from ..database.guarded import Table
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .records import RunRow
    from .tables import Tables


EVERYTHING = ""  # in place of a job: all jobs of the ledger
LONGEST = 3_600_000  # ms that a call may take; one that was held before that is charged to the period it was held in
HELD_UNITS = ("usd", "tokens", "calls")
FIRST_LAUNCH = 10**12  # number of the first hold for an agent's launch; calls to models have lower ones


@value(frozen=True, kw_only=True)
class Hold:
    """One call in flight. Amounts are whole parts of a unit."""

    run: str
    attempt: int
    call: int
    job: str
    at: float
    usd: int
    tokens: int
    calls: int
    fixed: int  # of usd: what does not depend on the output
    output_rate: int  # billionths for a million tokens, all answers together
    output: int  # tokens
    model: str = ""
    item: str = ""
    agent: str = ""


HOLD = TypedTable("held", Hold)


class _Removal(Table):
    """A table for a guarded write that deletes the rows of these keys instead of inserting."""

    def __init__(self) -> None:
        super().__init__("held", {"run": "TEXT", "attempt": "BIGINT", "call": "BIGINT"})
        self.insert = "DELETE FROM held WHERE run = ? AND attempt = ? AND call = ?"

    def insert_behind(self, fence: str, prefix: str, *, many: bool) -> str:
        if many:
            arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in self._typed())
            keys = f"SELECT run, attempt, call FROM {fence}, unnest({arrays}) AS given (run, attempt, call)"
        else:
            keys = f"SELECT {', '.join(f'CAST(:{name} AS {kind})' for name, kind in self._typed())} FROM {fence}"
        return f"DELETE FROM {prefix}held WHERE (run, attempt, call) IN ({keys})"


SETTLED = _Removal()

# Put again, it is the same. What is lazy must return something on PostgreSQL.
_PUT = f"{HOLD.put} ON CONFLICT (run, attempt, call) DO UPDATE SET at = held.at RETURNING call"
_TURN = """
INSERT INTO {prefix}cap (name, turn) VALUES (:name, 0) ON CONFLICT (name) DO UPDATE SET turn = cap.turn + 1
RETURNING turn
"""
_OPEN = f"SELECT {HOLD.names} FROM {{prefix}}held WHERE run = :run ORDER BY attempt, call"
# Used by attempts that ended, by attempts at work, and held. What is in doubt counts as used.
_TAKEN = """
SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM (
  SELECT {counted} AS {unit} FROM {{prefix}}tally WHERE day >= :day{job}
  UNION ALL SELECT {used} FROM {{prefix}}run AS run
    JOIN {{prefix}}usage AS used ON used.run = run.id AND used.attempt = run.attempt AND used.at >= :since
    WHERE run.status = 'running'{run_job}
  UNION ALL SELECT {held} FROM {{prefix}}held WHERE at >= :since - {longest}{job}
) AS taken
"""


def _taken_sql(unit: str, job: str) -> str:
    counted = "usd + doubt" if unit == "usd" else unit
    return _TAKEN.format(
        unit=unit,
        counted=counted,
        used=" + ".join(f"used.{part.strip()}" for part in counted.split("+")),
        longest=LONGEST,
        held=unit if unit in HELD_UNITS else "0",
        job=" AND job = :job" if job else "",
        run_job=" AND run.job = :job" if job else "",
    )


class Holds:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def put(self, hold: Hold) -> None:
        """Under the run's own caps. Kill -9 cannot undo it; it is on the disk with the next commit."""
        self._tables.database.write(self._tables.sql(_PUT), lazy=True, **HOLD.by_column(hold))

    def put_within(
        self, caps: Iterable[tuple[str, str, str]], decide: Callable[[dict[tuple[str, str, str], int]], Hold | None]
    ) -> Hold | None:
        """Under caps that runs share, each a (job, period, unit): `decide` gets what is taken of each."""
        wanted = list(caps)
        with self._tables.database.transaction() as execute:
            for name in sorted({f"{job}/{period}" for job, period, _ in wanted}):
                execute(self._tables.sql(_TURN), name=name)
            taken = {}
            for job, period, unit in wanted:
                day, since = self._tables.days.beginning(period)
                values = {"day": day, "since": since} | ({"job": job} if job else {})
                taken[job, period, unit] = int(execute(self._tables.sql(_taken_sql(unit, job)), **values)[0][0])
            hold = decide(taken)
            if hold:
                execute(self._tables.sql(HOLD.put), **HOLD.by_column(hold))
        return hold

    def forget(self, holds: Iterable[Hold]) -> None:
        """Remove them: the same is held anew."""
        sql = self._tables.sql("DELETE FROM {prefix}held WHERE run = :run AND attempt = :attempt AND call = :call")
        with self._tables.database.transaction() as execute:
            for hold in holds:
                execute(sql, run=hold.run, attempt=hold.attempt, call=hold.call)

    def taken(self, job: str, period: str, unit: str) -> int:
        """How much of a shared cap is taken, by all that count against it."""
        day, since = self._tables.days.beginning(period)
        values = {"day": day, "since": since} | ({"job": job} if job else {})
        return int(self._tables.read(_taken_sql(unit, job), **values)[0][0])

    def of_run(self, run: RunRow) -> list[Hold]:
        """Calls in flight of a run: those of earlier attempts were left behind by them."""
        return list(map(HOLD.read, self._tables.read(_OPEN, run=run.id)))
