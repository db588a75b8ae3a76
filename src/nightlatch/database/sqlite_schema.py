"""Our tables in a SQLite database: made and brought up to date. Not loaded where they are complete already."""

from __future__ import annotations

from ..errors import StoreUnreachable
from . import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..system.light import sqlite3


def migrate(connection: sqlite3.Connection, area: str, path: str) -> None:
    """Bring an area's tables up to date. The caller has its turn to write, and flushes the log afterwards."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnreachable(
            f"the store {path} cannot be used: SQLite cannot keep a write-ahead log there. Name a file on another disk "
            f"(--store sqlite:////path/to/file)"
        )
    try:
        connection.execute("BEGIN IMMEDIATE")
        make(connection, area, path)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def make(connection: sqlite3.Connection, area: str, path: str) -> None:
    """The work of `migrate`, for a database that nobody else has open."""
    connection.execute(schema.META)
    meta = dict(connection.execute(schema.READ).fetchall())
    if not schema.check(meta, area, path):  # no other process has done it while we waited
        _apply(meta, area, connection.execute)


def pending(meta: dict[str, str], area: str, path: str) -> list[str]:
    """The statements that `migrate` would run, for a person to run elsewhere."""
    if schema.check(meta, area, path):
        return []
    statements = [schema.META]
    _apply(meta, area, lambda sql, values: statements.append(schema.filled(sql, values)))
    return ["BEGIN IMMEDIATE", *statements, "COMMIT"]


def _apply(meta: dict[str, str], area: str, execute: Callable[[str, dict[str, str]], object]) -> None:
    schema.apply(meta, area, lambda sql, values: execute(schema.for_sqlite(sql), values))
