"""SQLite: one file, one machine, every commit on the disk before it is acknowledged.

Writers queue on an OS lock in front of the database. SQLite's own busy handler polls, which would give the fastest of
eight processes thousands of turns and another one a single turn. A process that was stopped inside its transaction
would block everybody, so a writer that has waited for two seconds checks whether that process is stopped, and kills
it.

The flush to the disk comes after that lock is released (`sqlite_log`).
"""

from __future__ import annotations

import os
from _thread import RLock

from ..errors import StoreUnreachable
from ..system import clock, durable, filelock, identity, storage
from ..system.light import ref, sqlite3
from . import schema, sqlite_presence
from .sqlite_errors import ExplainedSqliteErrors
from .sqlite_log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .guarded import Inserts, Rows, Table

    Row = tuple[Any, ...]

MEMORY = ":memory:"
_LOG_PAGES = 250  # until a checkpoint; few, since a process that opens the database alone reads the whole log
_THEN = "/* then */"  # separates two statements: see `_execute`
PATIENCE = 30.0  # seconds a writer waits for its turn unless it says otherwise

_inherited: list[sqlite3.Connection] = []  # from before a fork: referenced, so that they are never closed
_used: set[ref[SqliteDatabase]] = set()  # databases with a connection of this process


class SqliteDatabase:
    """One connection, shared by the threads of a process; opened at first use, closed before a fork, and opened again.

    A fork would copy SQLite's record of its locks: the child would believe that it holds the parent's locks.
    """

    # Fragments of SQL, as in PostgresDatabase.
    now, wall = ":now", ":wall"  # parameters: `_timed` adds their values
    share = lock = unlocked = ""  # there is only one writer at a time, so a row that is read needs no lock
    prefix = ""  # the file holds our tables only
    notify = ""  # there are no notifications
    matched = ""  # not needed: `_execute` asks how many rows a change has found
    unindexed = "+"  # SQLite uses no index for an expression
    alone = "TRUE"  # as only one process writes at a time
    many_machines = False
    poll_every = 0.02
    look_first = True  # reading takes microseconds, a turn to write takes longer

    def __init__(self, path: str, area: str, *, read_only: bool = False, is_real: bool = False) -> None:
        """`read_only`: no statement can change anything; with the path `MEMORY`, the tables exist and are empty.
        `is_real`: there is no link in the path."""
        # SQLite's log is beside the file, not beside a link to it.
        self.path = self.address = path if is_real or path == MEMORY else os.path.realpath(path)
        self.area = area
        self._read_only = read_only
        self._queue = filelock.FairLock(f"{self.path}.queue", keep_open=True)
        self._thread = RLock()
        self._explained = ExplainedSqliteErrors(self.path)
        self._connection: sqlite3.Connection | None = None
        self._log = Log(self.path)
        self._facts: dict[str, str] = {}
        self._file: tuple[int, int] | None = None  # (device, inode) that the connection is open on

    @property
    def clock_name(self) -> str:
        """Names the clock of `expires`: times of another boot or time namespace cannot be compared."""
        return f"{identity.boot()} {identity.time_namespace()}".strip()

    def identity(self) -> str:
        """A random id, made with the database."""
        return self.facts()[f"{self.area}.id"]

    def facts(self) -> dict[str, str]:
        """The facts recorded when the database was made."""
        if self._connection is None:
            with self._thread, self._explained:
                self._connect()
        return self._facts

    def read(self, sql: str, *, patience: float = PATIENCE, **values: object) -> list[Row]:
        """Readers do not wait for writers here: `patience` is for databases on a network."""
        with self._thread, self._explained:
            return self._current().execute(sql, _timed(sql, values)).fetchall()

    def read_for_each(self, jobs: Sequence[str], sql: str, **values: object) -> list[list[Row]]:
        """What the statement finds with each of these as its `:job`."""
        with self._thread, self._explained:
            connection = self._current()
            return [connection.execute(sql, {"job": job, **values}).fetchall() for job in jobs]

    def write(self, sql: str, *, lazy: bool = False, patience: float = PATIENCE, **values: object) -> list[Row]:
        """One statement, one transaction, durable when this returns.

        `lazy`: it need not be on the disk yet; the next commit of anything flushes it too.
        """
        with self._thread, self._explained:
            connection = self._current()
            # The clock is read before the statement: a pause in between can only make the result too careful.
            work = lambda: connection.execute(sql, _timed(sql, values)).fetchall()  # noqa: E731
            return self._in_turn(connection, work, patience, lazy=lazy)

    def guarded(self, update: str, values: dict[str, object], inserts: Inserts, *, lazy: bool = False) -> list[Row]:
        """Run `update`, and if it matches, insert the rows of `inserts`: all or nothing, durable when this returns.
        Returns [] if `update` matches nothing. `lazy` as in `write`."""

        def transaction() -> list[Row]:
            try:
                connection.execute("BEGIN IMMEDIATE")
                hit = _execute(connection, update, values)
                if hit:
                    for table, rows in inserts:
                        _insert(connection, table, rows)
                connection.execute("COMMIT")
                return hit
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        with self._thread, self._explained:
            connection = self._current()
            return self._in_turn(connection, transaction, PATIENCE, lazy=lazy)

    @staticmethod
    def row_after(table: str, columns: str) -> str:
        """The clause that makes a statement which changes the row with the id `:id` return the changed row. RETURNING
        would collect the row in a temporary table, which takes longer than reading it."""
        return f"{_THEN}SELECT {columns} FROM {table} WHERE id = :id"

    def transaction(self, *, lazy: bool = False) -> _SqliteTransaction:
        """Several statements as one: `with db.transaction() as execute: execute(sql, **values)`.

        `lazy` as in `write`.
        """
        return _SqliteTransaction(self, lazy)

    def listen(self, name: str) -> None:
        """None: there are no notifications, so a waiter polls."""

    def areas(self) -> set[str]:
        """Which of our areas exist: store, ledger. Creates nothing."""
        return schema.areas(self._read_meta())

    def pending(self) -> list[str]:
        """The statements that a migration would run, in order. Changes nothing, and makes no file."""
        from . import sqlite_schema

        return sqlite_schema.pending(self._read_meta(), self.area, self.path)

    def _read_meta(self) -> dict[str, str]:
        if not os.path.exists(self.path):
            return {}
        with self._explained:
            try:
                return self._read_meta_as("ro")
            except sqlite3.OperationalError as error:
                if "readonly" not in str(error):
                    raise
                return self._read_meta_as("rw")  # rolls back what a process that was killed has left half written

    def _read_meta_as(self, mode: str) -> dict[str, str]:
        connection = sqlite3.connect(f"file:{self.path}?mode={mode}", uri=True)
        try:
            return _meta(connection)
        finally:
            connection.close()

    def close(self) -> None:
        with self._thread:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._queue.close()
            self._log.close()

    def _current(self) -> sqlite3.Connection:
        """The connection to the file that is at the path now. If the folder was moved away, another process may make a
        new store at the path: with the old file still open, both would hand out the same leases."""
        if self.area == "store" and self._connection is not None and self._file != _file_at(self.path):
            self.close()
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        self._log.catch_up()
        if self._connection is None:
            _used.add(ref(self, _used.discard))
            self._connection = self._open() if self.path != MEMORY else self._open_empty()
            if self._read_only:
                self._connection.execute("PRAGMA query_only = ON")
        return self._connection

    def _open(self) -> sqlite3.Connection:
        self._queue.close()
        self._log.close()
        reason = storage.not_local(self.path)
        if reason:
            raise StoreUnreachable(
                f"the store {self.path} cannot be used: {reason}, and SQLite needs a local disk. "
                f"Name another file (--store sqlite:////path/to/file), or share leases between machines "
                f"with --store postgresql://… or --store git+origin"
            )
        if self.area == "store":
            sqlite_presence.expect(self.path, self._facts.get("store.id", ""))
        else:
            sqlite_presence.expect_ledger(self.path)
        durable.private_folder(os.path.dirname(self.path))
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")  # no flush inside a commit: `_log` flushes after it
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        meta = _meta(connection)
        if not schema.check(meta, self.area, self.path) or _mode(connection) != "wal":
            meta = self._migrate(connection)
        if self.area == "store":
            sqlite_presence.confirm(self.path, meta["store.id"], self._facts.get("store.id", ""))
        self._facts, self._file = meta, _file_at(self.path)
        return connection

    def _open_empty(self) -> sqlite3.Connection:
        connection = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
        self._facts = self._migrate(connection)
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> dict[str, str]:
        """Bring the tables up to date; returns what is recorded about them."""
        from . import sqlite_schema

        if self.path == MEMORY:  # nobody else has it open
            sqlite_schema.make(connection, self.area, self.path)
            return _meta(connection)
        self._take_turn()
        try:
            sqlite_schema.migrate(connection, self.area, self.path)
            self._log.flush()
            return _meta(connection)
        finally:
            self._queue.release()

    def _in_turn(
        self, connection: sqlite3.Connection, work: Callable[[], list[Row]], patience: float, *, lazy: bool
    ) -> list[Row]:
        before = connection.total_changes
        self._log.needs_flush = not lazy
        try:
            rows = self._queue.run(work, patience)
        except TimeoutError:
            raise self._busy_error(patience) from None
        if connection.total_changes == before:
            self._log.needs_flush = False
        elif not lazy:
            self._log.flush()
        return rows

    def _take_turn(self) -> None:
        if not self._queue.acquire_from_stopped(PATIENCE):
            raise self._busy_error(PATIENCE)

    def _busy_error(self, patience: float) -> StoreUnreachable:
        holder = self._queue.holder()
        return StoreUnreachable(
            f"the store {self.path} is kept busy"
            + (f" by process {holder[0]}" if holder else "")
            + f": no turn to write in {patience:.1f} s. Try again"
        )


def _databases() -> list[SqliteDatabase]:
    return [database for reference in list(_used) if (database := reference()) is not None]


def _before_fork() -> None:
    for database in _databases():
        database._thread.acquire()  # wait for another thread's statement
        if database._connection is None or not database._connection.in_transaction:
            database.close()


def _after_fork() -> None:
    for database in _databases():
        database._thread.release()
    _used.clear()


def _in_child() -> None:
    for database in _databases():
        if database._connection is not None:
            _inherited.append(database._connection)  # closing it would harm the parent's transaction
            database._connection = None
        database._queue.close()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


class _SqliteTransaction:
    def __init__(self, database: SqliteDatabase, lazy: bool) -> None:
        self._database, self._lazy = database, lazy

    def __enter__(self) -> _SqliteTransaction:
        database = self._database
        database._thread.acquire()
        try:
            with database._explained:
                self._connection = database._current()
                database._take_turn()
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                except BaseException:
                    database._queue.release()
                    raise
        except BaseException:
            database._thread.release()
            raise
        return self

    def __call__(self, sql: str, **values: object) -> list[Row]:
        with self._database._explained:
            return _execute(self._connection, sql, _timed(sql, values))

    def later(self, sql: str, **values: object) -> None:
        """Run a statement whose answer is not needed: a database on a network may send it with the next one."""
        self(sql, **values)

    def insert(self, table: Table, rows: Rows) -> None:
        """Insert rows, each with its values in the columns' order."""
        with self._database._explained:
            _insert(self._connection, table, rows)

    def many(self, sql: str, rows: Sequence[dict[str, object]]) -> None:
        """Run the statement once for each row, with its values; `:now` and `:wall` are the same for all."""
        with self._database._explained:
            time = _timed(sql, {})
            self._connection.executemany(sql, [time | row for row in rows])

    def __exit__(self, kind: object, *_: object) -> None:
        database = self._database
        database._log.needs_flush = kind is None and not self._lazy
        try:
            with database._explained:
                try:
                    self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
                finally:
                    database._queue.release()
                if database._log.needs_flush:
                    database._log.flush()
        finally:
            database._thread.release()


def _timed(sql: str, values: dict[str, object]) -> dict[str, object]:
    """The values, and the time if the statement asks for it."""
    if ":wall" not in sql and ":now" not in sql:
        return values
    return {"now": int(clock.now() * 1000), "wall": int(clock.wall() * 1000), **values}


def _execute(connection: sqlite3.Connection, sql: str, values: dict[str, object]) -> list[Row]:
    """Run a statement and, if it has changed a row, the one after `_THEN`; returns the rows of the last one that ran. A
    change that returns no rows gives one empty row if it has changed something."""
    change, _, then = sql.partition(_THEN)
    done = connection.execute(change, values)
    rows: list[Row] = done.fetchall()
    if done.rowcount < 1:  # -1: it was not a change
        return rows
    return connection.execute(then, values).fetchall() if then else rows or [()]


def _insert(connection: sqlite3.Connection, table: Table, rows: Rows) -> None:
    if len(rows) == 1:  # the usual case, and faster
        connection.execute(table.insert, rows[0])
    else:
        connection.executemany(table.insert, rows)


def _meta(connection: sqlite3.Connection) -> dict[str, str]:
    """What is recorded about the tables; {} if there are none."""
    try:
        return dict(connection.execute(schema.READ).fetchall())
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return {}
        raise


def _mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _file_at(path: str) -> tuple[int, int] | None:
    """(device, inode) of the file; None if there is none, or it is a database in memory."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
