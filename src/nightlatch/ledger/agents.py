"""Agents at a vendor, as recorded by the runs that launched them. The run's writer writes the rows, in the commit that
checks its token; what a person finds out is written in a transaction on the job's chain."""

from __future__ import annotations

from ..core.agent import PREPARED
from ..core.units import Amounts
from ..core.value import value
from . import kinds
from .tables import Tables
from .typed_table import TypedTable


@value(frozen=True, kw_only=True)
class AgentRow:
    """One launch. Times are wall clock, in seconds."""

    job: str
    launch: str  # the effect's key
    run: str
    item: str = ""
    provider: str
    agent: str
    handle: str
    status: str  # as the vendor reports it, or PREPARED
    note: str = ""
    page: str = ""
    fields: str = ""  # a JSON object: the arguments of its adapter
    used: Amounts = Amounts()  # the part of the vendor's totals that is recorded as usage
    began: float
    changed: float
    ended: float | None = None  # when the vendor reported its end


_NEVER_UPDATED = ("job", "launch", "began")
_UPDATED = [
    *(name for name in AgentRow.__annotations__ if name not in (*_NEVER_UPDATED, "used")),
    "usd", "tokens", "calls", "units", "doubt",
]  # fmt: skip
AGENT = TypedTable(
    "agent",
    AgentRow,
    "ON CONFLICT (job, launch) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in _UPDATED),
)


class Agents:
    """Made by `Ledger.agents`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def find(self, job: str, launch: str) -> AgentRow | None:
        return self._tables.first(AGENT, "WHERE job = :job AND launch = :launch", job=job, launch=launch)

    def by_handle(self, handle: str) -> AgentRow | None:
        """The newest agent with this handle."""
        return self._tables.first(AGENT, "WHERE handle = :handle ORDER BY began DESC LIMIT 1", handle=handle)

    def of_run(self, run: str) -> list[AgentRow]:
        return self._tables.select(AGENT, "WHERE run = :run ORDER BY began", run=run)

    def open(self) -> list[AgentRow]:
        """Launched agents whose end is not known, the oldest first."""
        unended = "WHERE ended IS NULL AND status <> :prepared ORDER BY began"
        return self._tables.select(AGENT, unended, prepared=PREPARED)

    def newest(self, limit: int) -> list[AgentRow]:
        return self._tables.select(AGENT, "ORDER BY began DESC LIMIT :most", most=limit)

    def put(self, row: AgentRow, by: str) -> None:
        """Record what a person, or a command that a person typed, found out about an agent."""
        with self._tables.on_chain(row.job) as chain:
            chain(AGENT.put, **AGENT.by_column(row))
            facts = {"handle": row.handle, "provider": row.provider, "status": row.status, "note": row.note or None}
            chain.append(kinds.AGENT_SEEN, run=row.run, by=by, **facts)
