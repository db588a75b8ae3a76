"""PostgreSQL: many machines, one server, whose clock decides.

A verb is one statement that commits by itself, so it works through a transaction pooler. A connection that is known to
be dead before anything is sent is replaced silently; an error after that is `StoreUnreachable`, and the verb may have
happened or not. The tables are in a separate schema (`nightlatch`, or `?schema=NAME` in the URL), made at first use.
"""

from __future__ import annotations

import os
import re
from queue import Empty, SimpleQueue

from psycopg import Error as PsycopgError
from psycopg.conninfo import make_conninfo

from ..core.passwords import hide_password
from ..errors import StoreUnreachable
from ..system import clock
from . import dsn, schema
from .guarded import one_statement
from .postgres_errors import ExplainedPostgresErrors
from .wire import Broken, ServerRefused, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .guarded import Inserts, Rows, Table
    from .release_waiter import NotifiedWaiter

    Row = tuple[Any, ...]

PATIENCE = 10.0  # seconds for one verb, connecting included, unless its caller passes another
# Seconds after which the server ends a transaction whose process says nothing: one that was stopped, or whose machine
# sleeps, would keep its rows locked for ever. A transaction that is at work is given up sooner, after PATIENCE.
IDLE = 12.0
CONNECTIONS = 4  # at once, for all threads of a process

_UNDEFINED_TABLE, _UNDEFINED_SCHEMA = "42P01", "3F000"
_ABORTED = ("40001", "40P01")  # serialization failure, deadlock: certainly not committed, and worth another try
_MOST_ROWS = 8  # in one INSERT of a transaction
_LAZY = "set_config('synchronous_commit', 'off', true)"  # for this transaction alone

# When a server vanishes, the kernel must not wait for a quarter of an hour.
_DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "nightlatch",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class PostgresDatabase:
    """A few connections, shared by the threads of a process; opened when needed, and again after a fork."""

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
        libpq_url, self.schema = dsn.split(url)
        self.prefix = f"{self.schema}."
        # Two more such fragments, which need the schema's name.
        self.alone = f"pg_try_advisory_xact_lock(hashtextextended('{self.schema} ' || :name, 0))"
        self.notify = f", pg_notify('{self.schema}', name)"
        try:
            conninfo = make_conninfo(libpq_url)
            self._conninfo = make_conninfo(conninfo, **{k: v for k, v in _DEFAULTS.items() if f"{k}=" not in conninfo})
        except PsycopgError:
            raise dsn.bad(url) from None
        self._pool = _Pool()
        self._facts: dict[str, str] = {}
        self._translated: dict[str, tuple[bytes, list[str]]] = {}

    def identity(self) -> str:
        """A random id, made with the database."""
        return self.facts()[f"{self.area}.id"]

    def facts(self) -> dict[str, str]:
        """The facts recorded when the database was made."""
        if not self._facts:
            self.read("SELECT 1")
        return self._facts

    def read(self, sql: str, *, patience: float = PATIENCE, **values: object) -> list[Row]:
        return self.write(sql, lazy=False, patience=patience, **values)

    def read_each(self, sql: str, rows: Sequence[dict[str, object]]) -> list[list[Row]]:
        """What the statement finds for the values of each row, in one round trip."""
        deadline = clock.now() + PATIENCE
        with ExplainedPostgresErrors(self.url), _Borrowed(self, deadline) as wire:
            statements = [self._statement(sql, row) for row in rows]
            return wire.execute_together(statements, deadline, prepare=True) if rows else []

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
                with _Borrowed(self, deadline) as wire:
                    try:
                        return self._execute(wire, sql, values, deadline, prepare=True)
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
        meta = self._read_meta()
        if schema.check(meta, self.area, self.url):
            return []
        statements: list[str] = [f"CREATE SCHEMA IF NOT EXISTS {self.schema}"]
        self._apply(meta, lambda sql, values: statements.append(schema.filled(sql, values)))
        return ["BEGIN", *statements, "COMMIT"]

    def _read_meta(self) -> dict[str, str]:
        deadline = clock.now() + PATIENCE
        with ExplainedPostgresErrors(self.url):
            wire = self.dial(deadline)
            try:
                return self._meta(wire, deadline)
            finally:
                wire.close()

    def close(self) -> None:
        self.pool.close()

    @property
    def pool(self) -> _Pool:
        if self._pool.made_by != os.getpid():
            self._pool = _Pool()  # after a fork: the connections belong to the parent
        return self._pool

    def dial(self, deadline: float) -> Wire:
        """A new connection; the schema is not checked."""
        return Wire(self._conninfo, deadline)

    def open(self, deadline: float) -> Wire:
        """A new connection; the schema is brought up to date first."""
        wire = self.dial(deadline)
        try:
            meta = self._meta(wire, deadline)
            self._check_same(meta)
            if not schema.check(meta, self.area, self.url):
                meta = self._migrate(wire, deadline)
            self._facts = meta
            wire.prepares = int(meta["backend"]) == wire.backend
        except BaseException:
            wire.close()
            raise
        return wire

    def _check_same(self, meta: dict[str, str]) -> None:
        """Raise if the tables that this process has used are gone, as while a dump is being restored, or were
        replaced by other tables: an empty store would hand out leases that are held, and start jobs that are paused."""
        name = f"{self.area}.id"
        if self._facts and meta.get(name) != self._facts[name]:
            problem = "is not the same as before" if name in meta else "has lost its tables"
            raise StoreUnreachable(
                f"the store {self.url} {problem} (id {self._facts[name][:8]}). If a backup is being restored, wait; to "
                f"use what is there now, start this again"
            )

    def _meta(self, wire: Wire, deadline: float) -> dict[str, str]:
        """The contents of `meta`, and the server process that answered: behind a pooler it changes."""
        sql = f"SELECT key, value FROM {self.prefix}meta UNION ALL SELECT 'backend', CAST(pg_backend_pid() AS text)"
        try:
            return dict(self._execute(wire, sql, {}, deadline))
        except ServerRefused as refused:
            if refused.sqlstate in (_UNDEFINED_TABLE, _UNDEFINED_SCHEMA):
                return {}
            raise

    def _migrate(self, wire: Wire, deadline: float) -> dict[str, str]:
        def execute(sql: str, values: dict[str, str]) -> None:
            self._execute(wire, sql, values, deadline)

        execute("BEGIN ISOLATION LEVEL READ COMMITTED", {})
        execute(f"SELECT {_idle()}, set_config('lock_timeout', '{int(PATIENCE * 1000)}', true)", {})
        # Two processes that start at once would both find nothing: IF NOT EXISTS does not wait for the other's commit.
        execute("SELECT pg_advisory_xact_lock(hashtext(:name))", {"name": f"nightlatch {self.schema}"})
        meta = self._meta(wire, deadline) if self._exists(wire, "to_regclass", f"{self.prefix}meta", deadline) else {}
        if not schema.check(meta, self.area, self.url):  # no other process has done it while we waited
            if not self._exists(wire, "to_regnamespace", self.schema, deadline):
                execute(f"CREATE SCHEMA {self.schema}", {})
            self._apply(meta, execute)
        meta = self._meta(wire, deadline)
        execute("COMMIT", {})
        return meta

    def _exists(self, wire: Wire, look_up: str, name: str, deadline: float) -> bool:
        """Does the table or schema exist? `look_up` gives NULL if not: an error would end the transaction."""
        return self._execute(wire, f"SELECT {look_up}(:name)", {"name": name}, deadline) != [(None,)]

    def _apply(self, meta: dict[str, str], execute: Callable[[str, dict[str, str]], object]) -> None:
        execute(f"SET LOCAL search_path TO {self.schema}", {})  # migrations are plain SQL, as for SQLite
        execute(schema.META, {})
        schema.apply(meta, self.area, lambda sql, values: None if schema.is_for_sqlite(sql) else execute(sql, values))

    def _execute(
        self, wire: Wire, sql: str, values: dict[str, Any], deadline: float, *, prepare: bool = False
    ) -> list[Row]:
        return wire.execute(*self._statement(sql, values), deadline, prepare=prepare)

    def _statement(self, sql: str, values: dict[str, Any]) -> tuple[bytes, list[object]]:
        """The statement as it is sent, and its parameters."""
        translated = self._translated.get(sql)
        if translated is None:
            translated = self._translated[sql] = _translate(sql)
        statement, names = translated
        return statement, [values[name] for name in names]


class _Pool:
    """Idle connections of one process, and how many more may be opened."""

    def __init__(self) -> None:
        self.made_by = os.getpid()
        self.turns: SimpleQueue[None] = SimpleQueue()  # used as a semaphore: ten times as fast as threading's
        for _ in range(CONNECTIONS):
            self.turns.put(None)
        self.idle: list[Wire] = []
        self.waiters: list[tuple[Wire, bool]] = []  # (connection, notifications have arrived on it)

    def close(self) -> None:
        while self.idle:
            self.idle.pop().close()
        while self.waiters:
            self.waiters.pop()[0].close()


class _Borrowed:
    """A connection for one verb or one transaction. It goes back to the pool unless it broke."""

    def __init__(self, database: PostgresDatabase, deadline: float) -> None:
        self._database, self._deadline = database, deadline
        self._pool = database.pool

    def __enter__(self) -> Wire:
        try:
            self._pool.turns.get(timeout=max(self._deadline - clock.now(), 0))
        except Empty:
            raise Broken(f"all {CONNECTIONS} connections of this process are in use") from None
        try:
            self._wire = self._idle() or self._database.open(self._deadline)
        except BaseException:
            self._pool.turns.put(None)
            raise
        return self._wire

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is None or isinstance(error, ServerRefused):
            self._pool.idle.append(self._wire)
        else:
            self._wire.close()  # an answer may still arrive on it, which the next user would take for its own
        self._pool.turns.put(None)

    def _idle(self) -> Wire | None:
        while self._pool.idle:
            wire = self._pool.idle.pop()
            if wire.alive:
                return wire
            wire.close()  # dead before anything was sent: the next one is used
        return None


class _PostgresTransaction:
    """A statement whose answer is not needed is sent with the next whose answer is: usually 3 round trips in all."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._deadline = clock.now() + PATIENCE
        self._unsent: list[tuple[bytes, list[object]]] = []

    def __enter__(self) -> _PostgresTransaction:
        with ExplainedPostgresErrors(self._database.url):
            self._borrowed = _Borrowed(self._database, self._deadline)
            self._wire = self._borrowed.__enter__()
        self.later("BEGIN ISOLATION LEVEL READ COMMITTED")
        self.later(f"SELECT {_idle()}")
        return self

    def __call__(self, sql: str, **values: object) -> list[Row]:
        self.later(sql, **values)
        statements, self._unsent = self._unsent, []
        with ExplainedPostgresErrors(self._database.url):
            return self._wire.execute_together(statements, self._deadline)[-1]

    def later(self, sql: str, **values: object) -> None:
        """Run a statement whose answer is not needed; if it is refused, a later call or the commit raises."""
        self._unsent.append(self._database._statement(sql, values))

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


def _idle() -> str:
    """The expression that sets IDLE for the present transaction."""
    return f"set_config('idle_in_transaction_session_timeout', '{int(IDLE * 1000)}', true)"


def _translate(sql: str) -> tuple[bytes, list[str]]:
    """`:name` → `$1`, and the names in that order. A cast (`::text`) is not a name."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"(?<!:):([a-z_][a-z_0-9]*)", number, sql).encode(), names
