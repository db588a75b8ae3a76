"""What a person has seen: a failed attempt that needs nobody any more, until another one fails."""

from __future__ import annotations

from . import kinds
from .chain import job_chain
from .records import ENTRY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .records import RunRow
    from .tables import Tables

_ALL = f"SELECT {ENTRY.names} FROM {{prefix}}journal WHERE chain = :chain AND kind = :kind ORDER BY seq DESC LIMIT 1000"


def put(tables: Tables, run: RunRow, by: str) -> None:
    with tables.on_chain(run.job) as chain:
        chain.append(kinds.ACKNOWLEDGED, run=run.id, attempt=run.attempt, by=by)


def of_job(tables: Tables, job: str) -> frozenset[tuple[str, int]]:
    """(run, attempt) of each."""
    rows = tables.read(_ALL, chain=job_chain(job), kind=str(kinds.ACKNOWLEDGED))
    return frozenset((entry.facts["run"], int(entry.facts["attempt"])) for entry in map(ENTRY.read, rows))
