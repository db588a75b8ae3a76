"""Triggers that refuse writes to a table of SQLite that bypass its gate.

They call a function that exists only on connections that a gate has used. The sqlite3 shell, or a program
that opens the file without the gate, does not have that function, so every change fails there.
"""

from __future__ import annotations

import sqlite3

from ..core.model import Mark
from ..errors import UsageError

FUNCTION = "nightlatch_token"
_VERBS = ("insert", "update", "delete")

# id of a connection → (gate, mark as text) of the gated transaction it is in. An entry lives no longer
# than that transaction, so an id that is used again finds nothing.
_current: dict[int, tuple[str, str]] = {}


def set_mark(connection: sqlite3.Connection, gate: str, mark: Mark) -> None:
    """From now on the triggers see this mark on this connection."""
    _current[id(connection)] = gate, f"{mark.token}:{mark.grant}:{mark.name}"


def clear_mark(connection: sqlite3.Connection) -> None:
    _current.pop(id(connection), None)


def define(connection: sqlite3.Connection) -> None:
    """Define the function that the triggers call. Call it once: each time SQLite prepares all statements again."""
    key = id(connection)

    def token(gate: str) -> str | None:
        current_gate, mark = _current.get(key, ("", ""))
        return mark if current_gate == gate else None

    connection.create_function(FUNCTION, 1, token)


def install(connection: sqlite3.Connection, gate: str, table: str) -> None:
    table = _stored_name(connection, table)
    others = [other for other in _gates_of(connection, table) if other != gate]
    if others:
        raise UsageError(f"{table} already has the triggers of the gate {others[0]}: remove those first")
    remove(connection, gate, [table])
    refusal = _literal(
        f"nightlatch: {table} is behind the gate {gate}, and the token that was offered is not its current one. "
        f"Nothing was written. Write inside gates.Sql({gate!r}).transaction(connection, lease)"
    )
    for verb in _VERBS:
        trigger = _identifier(_trigger_name(gate, table, verb))
        connection.execute(
            f"CREATE TRIGGER {trigger} BEFORE {verb.upper()} ON {_identifier(table)} BEGIN "
            f"SELECT RAISE(ABORT, {refusal}) WHERE NOT EXISTS (SELECT 1 FROM nightlatch_mark "
            f"WHERE gate = {_literal(gate)} AND token || ':' || grant_id || ':' || lease = "
            f"{FUNCTION}({_literal(gate)})); END"
        )


def remove(connection: sqlite3.Connection, gate: str, tables: list[str]) -> list[str]:
    """Drop the triggers of the gate from these tables, or from all; returns the tables that had them."""
    wanted = [table.lower() for table in tables]
    found = [table for table in guarded(connection, gate) if not wanted or table.lower() in wanted]
    for table in found:
        for verb in _VERBS:
            connection.execute(f"DROP TRIGGER IF EXISTS {_identifier(_trigger_name(gate, table, verb))}")
    return found


def guarded(connection: sqlite3.Connection, gate: str) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name = ? || tbl_name || ':insert' "
        "ORDER BY 1",
        (f"nightlatch:{gate}:",),
    )
    return [table for (table,) in rows]


def _gates_of(connection: sqlite3.Connection, table: str) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name LIKE 'nightlatch:%:insert'",
        (table,),
    )
    return [name.removeprefix("nightlatch:").removesuffix(f":{table}:insert") for (name,) in rows]


def _stored_name(connection: sqlite3.Connection, table: str) -> str:
    """The table's name as it was created, since SQLite ignores case. Raises if it cannot have triggers."""
    row = connection.execute(
        "SELECT name, type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", (table,)
    ).fetchone()
    if row is None:
        raise UsageError(f"there is no table {table}")
    kind = "virtual table" if str(row[2]).upper().startswith("CREATE VIRTUAL") else str(row[1])
    if kind != "table":
        raise UsageError(f"{table} is a {kind}, and only tables can be guarded")
    return str(row[0])


def _trigger_name(gate: str, table: str, verb: str) -> str:
    return f"nightlatch:{gate}:{table}:{verb}"


def _identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
