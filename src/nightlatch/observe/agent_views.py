"""Vendors' agents as this ledger knows them: the status of each one's run, and which are left running unwatched."""

from __future__ import annotations

from ..core import advice, statuses
from ..core.advice import Advice
from ..core.value import value
from ..ledger.agents import AgentRow
from .reader import StoreReader


@value(frozen=True, kw_only=True)
class AgentView:
    row: AgentRow
    run_status: str  # the run's status as shown; "": the run is no longer in this ledger
    elsewhere: bool = False  # another machine watches it

    @property
    def is_left(self) -> bool:
        """Is the agent still at work, as far as we know, while nobody watches it?"""
        return self.row.ended is None and self.run_status not in statuses.OPEN and not self.elsewhere

    @property
    def sentence(self) -> str:
        used = self.row.used.show()
        return f"nobody watches the agent {self.row.handle} at {self.row.provider}" + (
            f"; it used {used}" if used else ""
        )

    @property
    def cancel(self) -> Advice:
        return advice.to("agent", "cancel", self.row.handle)

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        row = self.row
        return {
            "version": 1,
            **{name: getattr(row, name) for name in ("handle", "provider", "agent", "status", "note", "page")},
            **{name: getattr(row, name) for name in ("job", "run", "item", "launch", "began", "changed", "ended")},
            "run_status": self.run_status,
            **row.used.by_unit(),
        }


def view(reader: StoreReader, row: AgentRow) -> AgentView:
    run = reader.ledger.run(row.run)
    if run is None:
        return AgentView(row=row, run_status="")
    status = reader.status(run)
    elsewhere = row.ended is None and status not in statuses.OPEN and reader.works_elsewhere(run)
    return AgentView(row=row, run_status=status, elsewhere=elsewhere)


def open_agents(reader: StoreReader) -> list[AgentView]:
    """Agents whose end no machine has seen."""
    return [view(reader, row) for row in reader.ledger.agents.open() if not reader.ended_elsewhere(row)]
