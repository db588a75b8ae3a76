"""The SQL gate on PostgreSQL: marks in their own schema, share-locked by the user's transaction.

`FOR SHARE` locks the mark's row until the user's transaction ends, and a seal is an UPDATE of that
row, so whichever comes second waits. (FOR KEY SHARE would not do: it does not block that UPDATE.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from ..core import duration
from ..core.fence import KeptMark, Refusal
from ..core.model import Mark
from ..database import dsn
from ..errors import GateUnreachable, UsageError
from . import sql_postgres_address as address
from . import sql_postgres_schema as schema
from .sql_marks import SqlMarks
from .sql_postgres_transaction import PostgresTransaction, one_line
from .sql_postgres_watch import SEAL, SealWatch

GRACE = 2.0  # seconds that an older holder's transaction has to finish
PATIENCE = 30.0  # seconds to wait for other sessions' locks
SEALER_IDLE = 10.0  # seconds after which the server ends a seal whose process is stopped

_LOCK_TIMEOUT = "55P03"  # this and the next two are SQLSTATEs
_MISSING = ("3F000", "42P01", "42883")  # there is no such schema, table, function
_OVERTAKEN = "40001"  # under REPEATABLE READ: a seal has changed the row since the transaction began
_TRANSACTION_TIMEOUT_SINCE = 170000  # the server's version: PostgreSQL 17


class Postgres:
    """A database on a server, under a URL by which every machine can reach it."""

    def __init__(self, url: str, conninfo: str, timeout: str | None) -> None:
        self.url = url
        self._conninfo = conninfo
        self._timeout = round(duration.parse(timeout, what="timeout") * 1000) if timeout else 0
        self._last_statement: tuple[Any, bytes, bytes] = (None, b"", b"")  # what it was made for, and its two parts

    @classmethod
    def by_url(cls, url: str, timeout: str | None) -> Postgres:
        """A password in the URL is used by this process only: the registered URL has none."""
        libpq_url, _ = dsn.split(url)
        try:
            conninfo = make_conninfo(libpq_url)
        except psycopg.Error:
            raise dsn.bad(url) from None
        return cls(address.registered(libpq_url), conninfo, timeout)

    @classmethod
    def by_connection(cls, connection: Any, timeout: str | None) -> Postgres:
        if not isinstance(connection, psycopg.Connection):
            raise UsageError(
                f"a gate takes a connection of sqlite3 or psycopg 3 (not an async one), not {type(connection).__name__}"
            )
        info = connection.info
        url = address.of_parameters(info.get_parameters(), info.user, info.dbname)
        password = {"password": info.password} if info.password else {}
        return cls(url, make_conninfo(info.dsn, **password), timeout)

    @contextmanager
    def exclusive(self, gate: str, mark: Mark | None) -> Iterator[PostgresMarks]:
        """Lets in one seal of a gate at a time: two stores must not both find the gate without marks."""
        with self._explain_errors(), self._own_connection() as connection:
            schema.ensure(connection)
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            _set(connection, "lock_timeout", PATIENCE)
            # A seal does not end the session of another seal: if this process is stopped in here, the server does.
            _set(connection, "idle_in_transaction_session_timeout", SEALER_IDLE)
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"nightlatch gate {gate}",))
            yield PostgresMarks(connection, gate, None if mark is None else SealWatch(self.connect, self.url))
            connection.execute("COMMIT")

    def enter(self, connection: Any, gate: str, mark: Mark) -> PostgresTransaction | None:
        if not isinstance(connection, psycopg.Connection):
            raise UsageError(f"the gate is on {self.url}: hand it a connection of psycopg 3")
        if connection.closed:
            raise GateUnreachable(f"{self.url}: the connection is closed. Nothing was written; open a new one")
        if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            raise UsageError("the connection is in a transaction already: commit it, or roll it back, first")
        if connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
            raise UsageError("the connection is in pipeline mode: open the pipeline inside the transaction")
        entered = PostgresTransaction(self, connection, gate, mark)
        try:
            return entered if entered.begin(*self._statement(connection, gate, mark)) else None
        except psycopg.Error as error:
            entered.rollback()
            if error.sqlstate in (*_MISSING, _OVERTAKEN):
                return None
            raise GateUnreachable(
                f"{self.url}: the transaction could not be begun: {one_line(error)}. Nothing was written"
            ) from error
        except BaseException:
            entered.rollback()
            raise

    def marks(self, gate: str) -> dict[str, KeptMark]:
        with self._explain_errors(), self._own_connection() as connection:
            return PostgresMarks(connection, gate, None).read() if schema.exists(connection) else {}

    def refusals(self, gate: str) -> list[Refusal]:
        with self._explain_errors(), self._own_connection() as connection:
            return PostgresMarks(connection, gate, None).refusals() if schema.exists(connection) else []

    def install(self, gate: str, tables: list[str]) -> None:
        with self.exclusive(gate, None) as marks:
            for table in tables:
                schema.install(marks.connection, gate, table)

    def remove(self, gate: str, tables: list[str]) -> list[str]:
        with self.exclusive(gate, None) as marks:
            return schema.remove(marks.connection, gate, tables)

    def guarded(self, gate: str) -> list[str]:
        with self._explain_errors(), self._own_connection() as connection:
            return schema.guarded(connection, gate) if schema.exists(connection) else []

    def unguarded(self, gate: str) -> list[str]:
        with self._explain_errors(), self._own_connection() as connection:
            return schema.unguarded(connection, gate) if schema.exists(connection) else []

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection, separate from the user's."""
        return psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10, application_name=SEAL)

    @contextmanager
    def _own_connection(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self.connect()
        try:
            yield connection
        finally:
            connection.close()  # rolls back what is not committed

    def _statement(self, connection: psycopg.Connection[Any], gate: str, mark: Mark) -> tuple[bytes, bytes]:
        """BEGIN, the check, and the mark, which the triggers read, in one message, so that the gate adds no round trip.

        Returned in two parts: the numbers that differ by transaction go between them.
        """
        key = (gate, mark, connection.isolation_level, connection.read_only, connection.deferrable)
        if self._last_statement[0] != key:
            claim = sql.Literal(f"{mark.token}:{mark.grant}:{mark.name}")
            settings = [sql.SQL("set_config('nightlatch.mark', {}, true)").format(claim)]
            if self._timeout:
                newer = connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE
                setting = "transaction_timeout" if newer else "idle_in_transaction_session_timeout"
                settings.append(sql.SQL("set_config({}, {}, true)").format(setting, str(self._timeout)))
            head = sql.SQL("BEGIN {}; SELECT {}.enter({}, {}, {}, ").format(
                sql.SQL(_modes(connection)),
                sql.Identifier(schema.SCHEMA),
                sql.Literal(gate),
                claim,
                sql.Literal(mark.store),
            )
            tail = sql.SQL("), {}").format(sql.SQL(", ").join(settings))
            self._last_statement = key, head.as_bytes(connection), tail.as_bytes(connection)
        return self._last_statement[1], self._last_statement[2]

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            text = one_line(error)
            if error.sqlstate == _LOCK_TIMEOUT:
                reason = f"another session has locked its marks for {PATIENCE:.0f} s: look at pg_stat_activity"
            elif error.sqlstate == "42501":
                reason = (
                    f"{text}. Let the owner run `nightlatch gate install URL`, then GRANT SELECT, INSERT, UPDATE, "
                    f"DELETE ON ALL TABLES IN SCHEMA {schema.SCHEMA} to this user"
                )
            elif "password" in text:
                reason = (
                    f"{text}. A gate's URL never carries a password: put it into PGPASSWORD, ~/.pgpass or a service "
                    f"file on every machine that seals the gate"
                )
            else:
                reason = text
            raise GateUnreachable(f"{self.url} could not be sealed or read: {reason}") from error


class PostgresMarks(SqlMarks):
    tables, placeholder = f"{schema.SCHEMA}.", "%s"

    def __init__(self, connection: psycopg.Connection[Any], gate: str, watch: SealWatch | None) -> None:
        super().__init__(connection, gate)
        self._watch = watch

    def write(self, kept: KeptMark) -> None:
        mark = kept.mark
        before = self.read().get(mark.name)
        if before and self._watch and before.mark.grant != mark.grant:
            self._wait_for_older_holder(before.mark, self._watch)
        # The holder that is overtaken now may still ask whether its last transaction was committed: its passages (a row
        # for each transaction) stay. Older ones are deleted: below `floor`, a missing passage proves nothing.
        floor = before.mark.token if before else 0
        self.connection.execute(
            f"INSERT INTO {schema.SCHEMA}.mark AS m (gate, lease, token, grant_id, store, at, by, floor) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (gate, lease) DO UPDATE SET token = excluded.token, "
            "grant_id = excluded.grant_id, store = excluded.store, at = excluded.at, by = excluded.by, "
            "floor = excluded.floor",
            (self.gate, mark.name, mark.token, mark.grant, mark.store, kept.at, kept.by, floor),
        )
        self.connection.execute(
            f"DELETE FROM {schema.SCHEMA}.passage WHERE gate = %s AND lease = %s AND token < %s",
            (self.gate, mark.name, floor),
        )

    def _wait_for_older_holder(self, old: Mark, watch: SealWatch) -> None:
        """Lock the mark's row. A session that share-locks it for longer than `GRACE` is an older holder's: end it."""
        query = f"SELECT 1 FROM {schema.SCHEMA}.mark WHERE gate = %s AND lease = %s FOR UPDATE"
        values = (self.gate, old.name)
        self.connection.execute("SAVEPOINT old")
        _set(self.connection, "lock_timeout", GRACE)
        try:
            self.connection.execute(query, values)
        except psycopg.errors.LockNotAvailable:
            self.connection.execute("ROLLBACK TO old")  # restores the timeout, too
            with watch.ending_blockers(self.connection):
                self.connection.execute(query, values)
        else:
            _set(self.connection, "lock_timeout", PATIENCE)


def _modes(connection: psycopg.Connection[Any]) -> str:
    """The modes that the user has set on the connection, as in psycopg's own BEGIN."""
    modes = []
    if connection.isolation_level is not None:
        modes.append(f"ISOLATION LEVEL {connection.isolation_level.name.replace('_', ' ')}")
    if connection.read_only is not None:
        modes.append("READ ONLY" if connection.read_only else "READ WRITE")
    if connection.deferrable is not None:
        modes.append("DEFERRABLE" if connection.deferrable else "NOT DEFERRABLE")
    return " ".join(modes)


def _set(connection: psycopg.Connection[Any], setting: str, seconds: float) -> None:
    """Change a timeout for this transaction only."""
    connection.execute("SELECT set_config(%s, %s, true)", (setting, str(round(seconds * 1000))))
