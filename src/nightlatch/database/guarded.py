"""An update, and rows that are inserted only if it matches a row: written once, rendered for each database.

SQLite does it in one transaction. PostgreSQL does it in one statement, a data-modifying CTE: one round trip, which
works through a transaction pooler. Several rows are sent as arrays, so that any number of them is the same statement,
prepared once; a single row, the usual case, is sent as plain values.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Rows = Sequence[tuple[object, ...]]
    Inserts = Sequence[tuple["Table", Rows]]


class Table:
    """A table to insert into: column → its SQL type, TEXT or BIGINT; `tail` may be an ON CONFLICT clause."""

    def __init__(self, name: str, columns: dict[str, str], tail: str = "") -> None:
        self.name = name
        self.columns = columns
        self.tail = tail
        self._parameters = [f"{name}_{column}" for column in columns]
        self._insert_all: dict[tuple[str, int], str] = {}
        # For SQLite: one row at a time, values in the columns' order.
        self.insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) {tail}"

    def insert_behind(self, fence: str, prefix: str, *, many: bool) -> str:
        """For PostgreSQL: insert one row, or with `many` the rows that arrays hold, if `fence` returned a row."""
        columns = ", ".join(self.columns)
        if many:
            arrays = ", ".join(f"CAST(:{value} AS {kind}[])" for value, kind in self._with_types())
            chosen = ", ".join(f"new_rows.{name}" for name in self.columns)
            source = f"{fence}, unnest({arrays}) AS new_rows ({columns})"
        else:
            chosen = ", ".join(f"CAST(:{value} AS {kind})" for value, kind in self._with_types())
            source = fence
        return f"INSERT INTO {prefix}{self.name} ({columns}) SELECT {chosen} FROM {source} {self.tail}"

    def values(self, rows: Rows) -> Iterable[tuple[str, object]]:
        """The parameters of `insert_behind`, each with its name."""
        columns = rows[0] if len(rows) == 1 else map(_array, zip(*rows, strict=True))
        return zip(self._parameters, columns, strict=True)

    def insert_all(self, prefix: str, count: int) -> str:
        """For PostgreSQL: insert `count` rows, with the parameters that `numbered` makes."""
        if (prefix, count) not in self._insert_all:
            rows = (
                ", ".join(f"CAST(:{value}_{number} AS {kind})" for value, kind in self._with_types())
                for number in range(count)
            )
            values = ", ".join(f"({row})" for row in rows)
            self._insert_all[prefix, count] = (
                f"INSERT INTO {prefix}{self.name} ({', '.join(self.columns)}) VALUES {values} {self.tail}"
            )
        return self._insert_all[prefix, count]

    def numbered(self, rows: Rows) -> dict[str, object]:
        """The parameters of `insert_all`."""
        return {
            f"{name}_{number}": item
            for number, row in enumerate(rows)
            for name, item in zip(self._parameters, row, strict=True)
        }

    def _with_types(self) -> Iterable[tuple[str, str]]:
        """(parameter, SQL type) of each column."""
        return zip(self._parameters, self.columns.values(), strict=True)


_statements: dict[object, str] = {}


def one_statement(update: str, inserts: Inserts, prefix: str) -> str:
    """The update and its inserts. `update` ends in RETURNING; the whole statement returns what `update` returns."""
    shape = update, prefix, tuple([(table, len(rows) > 1) for table, rows in inserts])
    if shape not in _statements:
        insertions = "".join(
            f", put_{table.name} AS ({table.insert_behind('fence', prefix, many=len(rows) > 1)})"
            for table, rows in inserts
        )
        _statements[shape] = f"WITH fence AS ({update}){insertions} SELECT fence.* FROM fence"
    return _statements[shape]


def _array(values: Sequence[object]) -> str:
    """A PostgreSQL array literal: every text in quotes, so that none is read as NULL or split at a comma."""
    return "{" + ",".join("NULL" if item is None else _quoted(str(item)) for item in values) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
