"""Calls in flight: before a call is forwarded, the most that it may use is held.

A call to which only the caps of its run apply is held by one insert: only the run's supervisor counts it. Under a cap
that several runs share, the sum and the insert are one transaction, which locks the cap's row first: of two calls that
would each fit into what is left, the second counts the first. A call that is settled meanwhile only lowers the sum.
"""

from __future__ import annotations

from ..core import statuses
from ..core.value import value
from ..database.guarded import Table
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .records import RunRow
    from .tables import Tables


ALL_JOBS = ""  # in place of a job's name: all jobs of the ledger
LONGEST = 3_600_000  # ms that a call may take: a hold made longer than this before a period does not count in it
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
    fixed: int  # the part of `usd` that does not depend on the output
    output_rate: int  # billionths of a usd for a million output tokens, all answers together
    output: int  # tokens
    model: str = ""
    item: str = ""
    agent: str = ""


HOLD = TypedTable("held", Hold)


class _Removal(Table):
    """A table for a guarded write that deletes the rows with these keys instead of inserting rows."""

    def __init__(self) -> None:
        super().__init__("held", {"run": "TEXT", "attempt": "BIGINT", "call": "BIGINT"})
        self.insert = "DELETE FROM held WHERE run = ? AND attempt = ? AND call = ?"

    def insert_behind(self, fence: str, prefix: str, *, many: bool) -> str:
        if many:
            arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in self._with_types())
            keys = f"SELECT run, attempt, call FROM {fence}, unnest({arrays}) AS given (run, attempt, call)"
        else:
            keys = f"SELECT {', '.join(f'CAST(:{name} AS {kind})' for name, kind in self._with_types())} FROM {fence}"
        return f"DELETE FROM {prefix}held WHERE (run, attempt, call) IN ({keys})"


SETTLED = _Removal()  # given as a table in a write: removes the holds of settled calls

# Inserting a hold again changes nothing. RETURNING: a lazy write on PostgreSQL needs it.
_PUT = f"{HOLD.put} ON CONFLICT (run, attempt, call) DO UPDATE SET at = held.at RETURNING call"
_TURN = """
INSERT INTO {prefix}cap (name, turn) VALUES (:name, 0) ON CONFLICT (name) DO UPDATE SET turn = cap.turn + 1
RETURNING turn
"""
_FORGET = "DELETE FROM {prefix}held WHERE run = :run AND attempt = :attempt AND call = :call"
_OPEN = f"SELECT {HOLD.names} FROM {{prefix}}held WHERE run = :run ORDER BY attempt, call"
_NOT_ENDED = ", ".join(f"'{status}'" for status in (*statuses.OPEN, *statuses.NEEDS_PERSON))
# What ended attempts have used, what running ones have used so far, and what is held. Usage in doubt counts as usage.
# What a hosted agent was given is held however long it works: until its run has ended.
_COUNTS = f"""(at >= :since - {LONGEST} OR (call >= {FIRST_LAUNCH} AND EXISTS (
    SELECT 1 FROM {{prefix}}run AS launched WHERE launched.id = held.run AND launched.status IN ({_NOT_ENDED}))))"""
_TAKEN = """
SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM (
  SELECT {counted} AS {unit} FROM {{prefix}}tally WHERE day >= :day{job}
  UNION ALL SELECT {used} FROM {{prefix}}run AS run
    JOIN {{prefix}}usage AS used ON used.run = run.id AND used.attempt = run.attempt AND used.at >= :since
    WHERE run.status = 'running'{run_job}
  UNION ALL SELECT {held} FROM {{prefix}}held WHERE {counts}{job}
) AS taken
"""


def _taken_sql(unit: str, job: str) -> str:
    counted = "usd + doubt" if unit == "usd" else unit
    return _TAKEN.format(
        unit=unit,
        counted=counted,
        used=" + ".join(f"used.{part.strip()}" for part in counted.split("+")),
        counts=_COUNTS,
        held=unit if unit in HELD_UNITS else "0",
        job=" AND job = :job" if job else "",
        run_job=" AND run.job = :job" if job else "",
    )


class Holds:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def put(self, hold: Hold) -> None:
        """Hold a call under its run's caps alone. Kill -9 cannot undo it; the next commit brings it to the disk."""
        self._tables.database.write(self._tables.sql(_PUT), lazy=True, **HOLD.by_column(hold))

    def put_within(
        self,
        caps: Iterable[tuple[str, str, str]],
        decide: Callable[[dict[tuple[str, str, str], int]], Hold | None],
        *,
        call: tuple[str, int, int] | None = None,
    ) -> Hold | None:
        """Hold a call under caps that runs share, each a (job, period, unit): `decide` gets what is taken of each, and
        returns the hold, or None to refuse the call. `call`: (run, attempt, number) of a call that may be held already,
        by an earlier try that got no reply: that hold is replaced."""
        shared_caps = list(caps)
        with self._tables.database.transaction() as execute:
            for name in sorted({f"{job}/{period}" for job, period, _ in shared_caps}):
                execute(self._tables.sql(_TURN), name=name)
            if call:
                execute.later(self._tables.sql(_FORGET), run=call[0], attempt=call[1], call=call[2])
            taken = {}
            for job, period, unit in shared_caps:
                day, since = self._tables.days.beginning(period)
                values = {"day": day, "since": since} | ({"job": job} if job else {})
                taken[job, period, unit] = int(execute(self._tables.sql(_taken_sql(unit, job)), **values)[0][0])
            hold = decide(taken)
            if hold:
                execute(self._tables.sql(HOLD.put), **HOLD.by_column(hold))
        return hold

    def forget(self, holds: Iterable[Hold]) -> None:
        """Remove holds without recording usage."""
        sql = self._tables.sql(_FORGET)
        with self._tables.database.transaction() as execute:
            for hold in holds:
                execute(sql, run=hold.run, attempt=hold.attempt, call=hold.call)

    def taken(self, job: str, period: str, unit: str) -> int:
        """How much of a shared cap is used or held, in the current period."""
        day, since = self._tables.days.beginning(period)
        values = {"day": day, "since": since} | ({"job": job} if job else {})
        return int(self._tables.read(_taken_sql(unit, job), **values)[0][0])

    def of_run(self, run: RunRow) -> list[Hold]:
        """A run's calls in flight, with those that earlier attempts left behind."""
        return list(map(HOLD.read, self._tables.read(_OPEN, run=run.id)))
