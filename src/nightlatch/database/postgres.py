"""PostgreSQL: many machines, one server, whose clock decides.

A verb is one statement that commits by itself, so it works through a transaction pooler. After `StoreUnreachable` the
verb may have happened or not. The tables are in a separate schema (`nightlatch`, or `?schema=NAME` in the URL), made at
first use.
"""

from __future__ import annotations

from ..core.passwords import hide_password
from ..system import clock
from . import dsn, schema
from .guarded import one_statement
from .placeholders import numbered
from .postgres_connections import PostgresConnections
from .postgres_errors import ExplainedPostgresErrors
from .postgres_schema import END_IF_IDLE, PATIENCE, PostgresSchema
from .wire import ServerRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .guarded import Inserts, Rows, Table
    from .release_waiter import NotifiedWaiter

    Row = tuple[Any, ...]

_ABORTED = ("40001", "40P01")  # serialization failure, deadlock: certainly not committed, and worth another try
_MOST_ROWS = 8  # in one INSERT of a transaction
_FOR_EACH = """
SELECT given.place, found.* FROM unnest(string_to_array(:given, chr(10))) WITH ORDINALITY AS given (job, place)
CROSS JOIN LATERAL
"""
_LAZY = "set_config('synchronous_commit', 'off', true)"  # for this transaction alone


class PostgresDatabase:
    """May be used by several threads, and again after a fork."""

    # Fragments of SQL that differ between databases; ledger/tables.py, store/sql.py and store/sql_rows.py say what each
    # is for. The clock is the server's at this moment, in ms; now() would be the start of the transaction.
    now = wall = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
    share, lock = "FOR SHARE", "FOR NO KEY UPDATE"
    unlocked = "FOR NO KEY UPDATE SKIP LOCKED"
    matched = "RETURNING 1"
    unindexed = ""  # PostgreSQL has statistics, and chooses the index by itself
    clock_name = "server"
    many_machines = True  # a lease from before the server's clock was set back may be another machine's: it is watched
    poll_every = 0.05
    look_first = False  # reading first would cost a round trip

    def __init__(self, url: str, area: str) -> None:
        self.url = hide_password(url)
        # A URL by which another process can open it without a secret; "" if there is none.
        self.address = "" if dsn.has_secret(url) or dsn.needs_environment(url) else url
        self.area = area
        _, self.schema = dsn.split(url)
        self.prefix = f"{self.schema}."
        # Two more such fragments, which need the schema's name.
        self.alone = f"pg_try_advisory_xact_lock(hashtextextended('{self.schema} ' || :name, 0))"
        self.notify = f", pg_notify('{self.schema}', name)"
        self._tables = PostgresSchema(self.schema, area, self.url)
        self.connections = PostgresConnections(url, self._tables)

    def identity(self) -> str:
        """A random id, made with the database."""
        return self.facts()[f"{self.area}.id"]

    def facts(self) -> dict[str, str]:
        """The facts recorded when the database was made."""
        if not self.connections.facts:
            self.read("SELECT 1")
        return self.connections.facts

    def read(self, sql: str, *, patience: float = PATIENCE, **values: object) -> list[Row]:
        return self.write(sql, lazy=False, patience=patience, **values)

    def read_for_each(self, jobs: Sequence[str], sql: str, **values: Any) -> list[list[Row]]:
        """What the statement finds with each of these as its `:job`. One statement for all: their rows come in a third
        less time than as an answer for each."""
        if len(jobs) == 1:
            return [self.read(sql, job=jobs[0], **values)]
        found: list[list[Row]] = [[] for _ in jobs]
        for_each = f"{_FOR_EACH} ({sql.replace(':job', 'given.job')}) AS found"
        for row in self.read(for_each, given="\n".join(jobs), **values):
            found[row[0] - 1].append(row[1:])
        return found

    def write(self, sql: str, *, lazy: bool = False, patience: float = PATIENCE, **values: object) -> list[Row]:
        """One statement, one transaction; committed when this returns.

        `lazy`: the change need not be on the server's disk yet; the next commit of anything flushes it too. `sql` must
        end in RETURNING.
        """
        return self._write(f"{sql.rstrip()}, {_LAZY}" if lazy else sql, values, patience)

    def _write(self, sql: str, values: dict[str, Any], patience: float) -> list[Row]:
        deadline = clock.now() + patience
        with ExplainedPostgresErrors(self.url):
            while True:
                with self.connections.borrow(deadline) as wire:
                    try:
                        return wire.execute(*numbered(sql, values), deadline, prepare=True)
                    except ServerRefused as refused:
                        if refused.sqlstate not in _ABORTED or clock.now() >= deadline:
                            raise

    def guarded(self, update: str, values: dict[str, object], inserts: Inserts, *, lazy: bool = False) -> list[Row]:
        """Run `update`, which ends in RETURNING, and if it matches, insert the rows of `inserts`: all in one statement.
        Returns [] if `update` matches nothing. `lazy` as in `write`."""
        sql = one_statement(update, inserts, self.prefix) + (f", (SELECT {_LAZY}) AS lazy" if lazy else "")
        values = values.copy()
        for table, rows in inserts:
            values.update(table.values(rows))
        return self._write(sql, values, PATIENCE)

    @staticmethod
    def row_after(table: str, columns: str) -> str:
        """The clause that makes a statement which changes one row return the changed row."""
        return f"RETURNING {columns}"

    def transaction(self, *, lazy: bool = False) -> _PostgresTransaction:
        """Several statements as one: `with db.transaction() as execute: execute(sql, **values)`. `lazy`
        is ignored: it would cost another round trip."""
        return _PostgresTransaction(self)

    def listen(self, name: str) -> NotifiedWaiter:
        """A waiter for the release of `name`; behind a transaction pooler there are no notifications, so it polls."""
        from .release_waiter import NotifiedWaiter

        return NotifiedWaiter(self, name)

    def areas(self) -> set[str]:
        """Which of our areas exist: store, ledger. Creates nothing."""
        return schema.areas(self._read_meta())

    def pending(self) -> list[str]:
        """The statements that a migration would run, in order. Changes nothing."""
        return self._tables.pending(self._read_meta())

    def _read_meta(self) -> dict[str, str]:
        deadline = clock.now() + PATIENCE
        with ExplainedPostgresErrors(self.url):
            wire = self.connections.dial(deadline)
            try:
                return self._tables.read(wire, deadline)
            finally:
                wire.close()

    def close(self) -> None:
        self.connections.pool.close()


class _PostgresTransaction:
    """A statement whose answer is not needed is sent with the next whose answer is: usually 3 round trips in all."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._deadline = clock.now() + PATIENCE
        self._unsent: list[tuple[bytes, list[object]]] = []

    def __enter__(self) -> _PostgresTransaction:
        with ExplainedPostgresErrors(self._database.url):
            self._borrowed = self._database.connections.borrow(self._deadline)
            self._wire = self._borrowed.__enter__()
        self.later("BEGIN ISOLATION LEVEL READ COMMITTED")
        self.later(f"SELECT {END_IF_IDLE}")
        return self

    def __call__(self, sql: str, **values: object) -> list[Row]:
        self.later(sql, **values)
        statements, self._unsent = self._unsent, []
        with ExplainedPostgresErrors(self._database.url):
            return self._wire.execute_together(statements, self._deadline)[-1]

    def later(self, sql: str, **values: object) -> None:
        """Run a statement whose answer is not needed; if it is refused, a later call or the commit raises."""
        self._unsent.append(numbered(sql, values))

    def many(self, sql: str, rows: Sequence[dict[str, object]]) -> None:
        """Run the statement once for each row, with its values; as with `later`."""
        for row in rows:
            self.later(sql, **row)

    def insert(self, table: Table, rows: Rows) -> None:
        """Insert rows, each with its values in the columns' order; as with `later`."""
        for first in range(0, len(rows), _MOST_ROWS):
            some = rows[first : first + _MOST_ROWS]
            self.later(table.insert_all(self._database.prefix, len(some)), **table.numbered(some))

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is not None:
            # Closing rolls back in any state of the connection.
            self._borrowed.__exit__(kind, error)
            return
        try:
            self("COMMIT")
        except BaseException as failed:
            self._borrowed.__exit__(type(failed), failed)
            raise
        self._borrowed.__exit__(None, None)
