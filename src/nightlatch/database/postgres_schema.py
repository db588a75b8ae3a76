"""Our tables on a PostgreSQL server, in their own schema: found, made, and brought up to date."""

from __future__ import annotations

from . import schema
from .placeholders import numbered
from .wire import ServerRefused, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 10.0  # seconds for one verb, connecting included, unless its caller passes another
# Seconds after which the server ends a transaction whose process says nothing: one that was stopped, or whose machine
# sleeps, would keep its rows locked for ever. A transaction that is at work is given up sooner, after PATIENCE.
IDLE = 12.0
# The expression that sets IDLE for the present transaction.
END_IF_IDLE = f"set_config('idle_in_transaction_session_timeout', '{int(IDLE * 1000)}', true)"

_UNDEFINED_TABLE, _UNDEFINED_SCHEMA = "42P01", "3F000"


class PostgresSchema:
    """One area (the store's tables, or the ledger's) in the schema `name`."""

    def __init__(self, name: str, area: str, where: str) -> None:
        """`where`: the server's URL, for messages."""
        self.name, self.area, self.where = name, area, where

    def read(self, wire: Wire, deadline: float) -> dict[str, str]:
        """The contents of `meta`, {} if it does not exist; and the server process that answered: behind a pooler it
        changes."""
        sql = f"SELECT key, value FROM {self.name}.meta UNION ALL SELECT 'backend', CAST(pg_backend_pid() AS text)"
        try:
            return dict(wire.execute(sql.encode(), [], deadline))
        except ServerRefused as refused:
            if refused.sqlstate in (_UNDEFINED_TABLE, _UNDEFINED_SCHEMA):
                return {}
            raise

    def is_complete(self, meta: dict[str, str]) -> bool:
        """Raises if the tables need a newer program."""
        return schema.check(meta, self.area, self.where)

    def migrate(self, wire: Wire, deadline: float) -> dict[str, str]:
        """Bring the tables up to date, in one transaction; returns what `read` finds then."""

        def execute(sql: str, values: dict[str, str]) -> list[tuple[object, ...]]:
            return wire.execute(*numbered(sql, values), deadline)

        def exists(look_up: str, name: str) -> bool:  # gives NULL if not: an error would end the transaction
            return execute(f"SELECT {look_up}(:name)", {"name": name}) != [(None,)]

        execute("BEGIN ISOLATION LEVEL READ COMMITTED", {})
        execute(f"SELECT {END_IF_IDLE}, set_config('lock_timeout', '{int(PATIENCE * 1000)}', true)", {})
        # Two processes that start at once would both find nothing: IF NOT EXISTS does not wait for the other's commit.
        execute("SELECT pg_advisory_xact_lock(hashtext(:name))", {"name": f"nightlatch {self.name}"})
        meta = self.read(wire, deadline) if exists("to_regclass", f"{self.name}.meta") else {}
        if not self.is_complete(meta):  # no other process has done it while we waited
            if not exists("to_regnamespace", self.name):
                execute(f"CREATE SCHEMA {self.name}", {})
            self._apply(meta, execute)
        meta = self.read(wire, deadline)
        execute("COMMIT", {})
        return meta

    def pending(self, meta: dict[str, str]) -> list[str]:
        """The statements that `migrate` would run, for a person to run elsewhere."""
        if self.is_complete(meta):
            return []
        statements = [f"CREATE SCHEMA IF NOT EXISTS {self.name}"]
        self._apply(meta, lambda sql, values: statements.append(schema.filled(sql, values)))
        return ["BEGIN", *statements, "COMMIT"]

    def _apply(self, meta: dict[str, str], execute: Callable[[str, dict[str, str]], object]) -> None:
        execute(f"SET LOCAL search_path TO {self.name}", {})  # migrations are plain SQL, as for SQLite
        execute(schema.META, {})
        schema.apply(meta, self.area, lambda sql, values: None if schema.is_for_sqlite(sql) else execute(sql, values))
