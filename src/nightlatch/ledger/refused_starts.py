"""Starts that were refused: one record for each job and cause, with a count. A refused start leaves no run."""

from __future__ import annotations

from ..core.value import value
from .tables import Tables
from .typed_table import TypedTable

HELD, BUDGET = "held", "budget"  # causes. HELD: the lease is held, or the next try is not due; BUDGET: it is spent
_MOST_APART = 86_400_000  # ms without a refusal, after which the next one begins a new count
_MOST = 200  # records


@value(frozen=True, kw_only=True)
class RefusedStart:
    job: str
    cause: str
    reason: str  # of the last refusal
    first: float
    last: float
    count: int


_RECORD = TypedTable(
    "refused_start",
    RefusedStart,
    f"""ON CONFLICT (job, cause) DO UPDATE SET reason = excluded.reason, last = excluded.last,
  first = CASE WHEN excluded.last - refused_start.last > {_MOST_APART} THEN excluded.first ELSE refused_start.first END,
  count = CASE WHEN excluded.last - refused_start.last > {_MOST_APART} THEN 1 ELSE refused_start.count + 1 END""",
)


class RefusedStarts:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def add(self, job: str, cause: str, reason: str) -> None:
        at = self._tables.now() / 1000
        row = RefusedStart(job=job, cause=cause, reason=reason, first=at, last=at, count=1)
        with self._tables.database.transaction() as execute:
            execute(self._tables.sql(_RECORD.put), **_RECORD.by_column(row))

    def since(self, since: float) -> list[RefusedStart]:
        """The records of starts refused since then, the newest first."""
        newest = "WHERE last >= :since ORDER BY last DESC LIMIT :most"
        return self._tables.select(_RECORD, newest, since=round(since * 1000), most=_MOST)

    def of(self, job: str) -> list[RefusedStart]:
        return self._tables.select(_RECORD, "WHERE job = :job ORDER BY last DESC", job=job)
