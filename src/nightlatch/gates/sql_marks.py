"""The marks and refusals of a SQL gate, in tables that are the same on every database."""

from __future__ import annotations

from ..core.fence import KeptMark, Refusal
from ..core.model import Mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

KEEP = 1000  # refusals kept for each gate


class SqlMarks:
    """The marks and refusals of one gate, read and recorded on a connection."""

    tables: ClassVar[str]  # what the names of the tables begin with
    placeholder: ClassVar[str]  # for a value in a statement

    def __init__(self, connection: Any, gate: str) -> None:
        self.connection, self.gate = connection, gate

    def execute(self, statement: str, *values: object) -> Any:
        return self.connection.execute(statement.replace("?", self.placeholder), values)

    def read(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""
        columns = "store, lease, token, grant_id, by, at"
        rows = self.execute(f"SELECT {columns} FROM {self.tables}mark WHERE gate = ? ORDER BY lease", self.gate)
        return {
            lease: KeptMark(mark=Mark(store=store, name=lease, token=token, grant=grant), by=by, at=at)
            for store, lease, token, grant, by, at in rows
        }

    def record(self, refusal: Refusal) -> None:
        table, r = f"{self.tables}refusal", refusal
        self.execute(
            f"INSERT INTO {table} (gate, at, lease, offered, grant_id, store, stands, by) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.gate, r.at, r.name, r.offered, r.grant, r.store, r.current, r.by),
        )
        oldest = f"SELECT id FROM {table} WHERE gate = ? ORDER BY id DESC LIMIT 1 OFFSET {KEEP - 1}"
        self.execute(f"DELETE FROM {table} WHERE gate = ? AND id < ({oldest})", self.gate, self.gate)

    def refusals(self) -> list[Refusal]:
        columns = "at, lease, offered, grant_id, store, stands, by"  # stands: the token that the gate had
        rows = self.execute(f"SELECT {columns} FROM {self.tables}refusal WHERE gate = ? ORDER BY id", self.gate)
        return [
            Refusal(at=at, name=name, offered=offered, grant=grant, store=store, current=current, by=by)
            for at, name, offered, grant, store, current, by in rows
        ]
