"""One update that must hit, and rows that are inserted only if it does: written once, rendered for each database.

SQLite does it in one transaction. PostgreSQL does it in one statement, a data-modifying CTE: one round
trip, which a transaction pooler may carry. Rows go there as arrays, so that any number of them is one
and the same statement, prepared once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = Sequence[tuple[object, ...]]
    Inserts = Sequence[tuple["Table", Rows]]


class Table:
    """Where rows go: column → its SQL type, TEXT or BIGINT; `tail` may say what a conflict does."""

    def __init__(self, name: str, columns: dict[str, str], tail: str = "") -> None:
        self.name = name
        self.columns = columns
        self.tail = tail
        # For SQLite: one row at a time, values in the columns' order.
        self.insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) {tail}"

    def insert_behind(self, fence: str, prefix: str) -> str:
        """For PostgreSQL: all rows, if `fence` has one."""
        columns = ", ".join(self.columns)
        arrays = ", ".join(f"CAST(:{self._array(name)} AS {kind}[])" for name, kind in self.columns.items())
        return (
            f"INSERT INTO {prefix}{self.name} ({columns}) SELECT {', '.join(f'given.{name}' for name in self.columns)} "
            f"FROM {fence}, unnest({arrays}) AS given ({columns}) {self.tail}"
        )

    def arrays(self, rows: Rows) -> dict[str, str]:
        return {self._array(name): _array([row[place] for row in rows]) for place, name in enumerate(self.columns)}

    def _array(self, column: str) -> str:
        return f"{self.name}_{column}"


def one_statement(update: str, tables: Sequence[Table], prefix: str) -> str:
    """`update` ends in RETURNING; what it returns comes back."""
    inserts = "".join(f", put_{table.name} AS ({table.insert_behind('fence', prefix)})" for table in tables)
    return f"WITH fence AS ({update}){inserts} SELECT * FROM fence"


def _array(values: Sequence[object]) -> str:
    """PostgreSQL's way to write an array: every text in quotes, so that none is taken for NULL or a comma."""
    return "{" + ",".join("NULL" if item is None else _quoted(str(item)) for item in values) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
