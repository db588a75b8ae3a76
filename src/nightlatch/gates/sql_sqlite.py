"""The SQL gate on SQLite: marks in the user's database file, checked inside BEGIN IMMEDIATE.

Gated transactions first queue on a lock file beside the database. SQLite does not reveal which process has its write
lock; the lock file does, so that a holder stopped inside its transaction can be found and killed.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from urllib.parse import unquote_to_bytes

from ..core.model import Mark
from ..errors import GateUnreachable, UsageError
from ..system import filelock, identity, presence, storage
from . import address
from . import sql_sqlite_triggers as triggers
from .sql_marks import SqlMarks
from .sql_sqlite_transaction import SqliteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..core.fence import KeptMark, Refusal

PATIENCE = 30.0  # seconds to wait for a turn to write

_TABLES = (
    """CREATE TABLE IF NOT EXISTS nightlatch_mark (gate TEXT NOT NULL, lease TEXT NOT NULL, token INTEGER NOT NULL,
    grant_id TEXT NOT NULL, store TEXT NOT NULL, at REAL NOT NULL, by TEXT NOT NULL, PRIMARY KEY (gate, lease))""",
    """CREATE TABLE IF NOT EXISTS nightlatch_refusal (id INTEGER PRIMARY KEY, gate TEXT NOT NULL, at REAL NOT NULL,
    lease TEXT NOT NULL, offered INTEGER NOT NULL, grant_id TEXT NOT NULL, store TEXT NOT NULL,
    stands INTEGER NOT NULL, by TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS nightlatch_database (id TEXT NOT NULL)",
    "INSERT INTO nightlatch_database SELECT lower(hex(randomblob(16))) "
    "WHERE NOT EXISTS (SELECT 1 FROM nightlatch_database)",
)


class Sqlite:
    """A database file on this machine's disk."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.url = address.to_url("sqlite", self.path)
        self.lock_path = f"{self.path}-nightlatch.lock"

    @classmethod
    def by_url(cls, url: str, timeout: str | None) -> Sqlite:
        """`sqlite:////path/from/root`, `sqlite:///relative`, or `sqlite://MACHINE/path` as it is registered."""
        _refuse_timeout(timeout)
        machine, slash, path = url.removeprefix("sqlite://").partition("/")
        if not url.startswith("sqlite://") or not slash or not path or path == ":memory:":
            raise UsageError(f"{url!r} does not name a file: write sqlite:////path/to/file (four slashes)")
        if machine not in ("", identity.machine()):
            raise UsageError(f"{url} is on the disk of another machine ({machine[:8]}): run this there")
        return cls(os.fsdecode(unquote_to_bytes(f"/{path}" if machine else path)))

    @classmethod
    def by_connection(cls, connection: sqlite3.Connection, timeout: str | None) -> Sqlite:
        _refuse_timeout(timeout)
        path = _path_of(connection)
        if not path:
            raise UsageError("a database in memory belongs to one process: nobody else can write to it, or seal it")
        return cls(path)

    def exclusive(self, gate: str, mark: Mark | None) -> Any:
        """With a mark, the file must be the database that was sealed before; without, a person adopts what is there."""
        return self._exclusive(gate, expected=mark is not None)

    @contextmanager
    def _exclusive(self, gate: str, *, expected: bool) -> Iterator[SqliteMarks]:
        """A transaction on a separate connection, so that the settings of the user's connection do not matter."""
        if expected:
            self._check_not_missing(gate)
        else:
            presence.forget(self.path)
        with self._own_connection(create=True) as connection, self._locked(), self._explain_errors():
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                connection.execute(statement)
            (database_id,) = connection.execute("SELECT id FROM nightlatch_database").fetchone()
            if presence.recall(self.path) not in ("", database_id):
                raise self._gone("is another database than the one that was sealed here", gate)
            yield SqliteMarks(connection, gate)
            connection.execute("COMMIT")
            presence.remember(self.path, database_id)

    def enter(self, connection: Any, gate: str, mark: Mark) -> SqliteTransaction | None:
        if not isinstance(connection, sqlite3.Connection):
            raise UsageError(f"the gate is on {self.url}: hand it a connection of sqlite3")
        if getattr(connection, "autocommit", None) is False:
            raise UsageError("connect with autocommit=True, or without it: autocommit=False begins by itself")
        if connection.in_transaction:
            raise UsageError("the connection is in a transaction already: commit it, or roll it back, first")
        with self._explain_errors():
            if not os.path.samefile(_path_of(connection) or os.devnull, self.path):
                return None
        lock = self._take_lock()
        try:
            with self._explain_errors():
                connection.execute("BEGIN IMMEDIATE")
            entered = SqliteTransaction(connection, lock, gate, mark)
            if entered.admitted():
                return entered
            entered.rollback()
            return None
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            triggers.clear_mark(connection)
            if lock.held:
                lock.release()
            raise

    def marks(self, gate: str) -> dict[str, KeptMark]:
        with self._own_connection() as connection, self._explain_errors():
            return SqliteMarks(connection, gate).read() if _exists(connection, "nightlatch_mark") else {}

    def refusals(self, gate: str) -> list[Refusal]:
        with self._own_connection() as connection, self._explain_errors():
            return SqliteMarks(connection, gate).refusals() if _exists(connection, "nightlatch_refusal") else []

    def install(self, gate: str, tables: list[str]) -> None:
        with self._exclusive(gate, expected=True) as marks:
            for table in tables:
                triggers.install(marks.connection, gate, table)

    def remove(self, gate: str, tables: list[str]) -> list[str]:
        with self._exclusive(gate, expected=True) as marks:
            return triggers.remove(marks.connection, gate, tables)

    def guarded(self, gate: str) -> list[str]:
        with self._own_connection() as connection, self._explain_errors():
            return triggers.guarded(connection, gate)

    def unguarded(self, gate: str) -> list[str]:
        return []  # SQLite has neither partitions nor INHERITS

    @contextmanager
    def _own_connection(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        reason = storage.not_local(self.path)
        if reason:
            raise GateUnreachable(f"{self.path} cannot be gated: {reason}, where SQLite's locks are not reliable")
        if not create and not os.path.exists(self.path):
            raise UsageError(f"there is no database {self.path}")
        with self._explain_errors():
            if create:
                self._create_file()
            connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            # EXTRA: without it a power failure could bring back a deleted journal, and with it the old mark.
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection
        finally:
            connection.close()  # rolls back what is not committed

    def _create_file(self) -> None:
        """Create the database file, before its lock file: a lock file alone means that the database is missing."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            pass

    def _check_not_missing(self, gate: str) -> None:
        """Raise if a database sealed here is missing: a new one on the empty mount point would not protect it."""
        if os.path.exists(self.path):
            return
        if not os.path.isdir(os.path.dirname(self.path)):
            raise self._gone("is not there, nor is its folder", gate)
        # The path is checked again last: another process may be creating the database at this moment.
        if (os.path.exists(self.lock_path) or presence.recall(self.path)) and not os.path.exists(self.path):
            raise self._gone("is gone: it was sealed here before", gate)

    def _gone(self, how: str, gate: str) -> GateUnreachable:
        return GateUnreachable(
            f"{self.path} {how}. Nothing was written. Mount its disk, or restore the file; if what is there now "
            f"replaces it for good: nightlatch gate adopt {self.url}#{gate}"
        )

    def _take_lock(self) -> filelock.FairLock:
        lock = filelock.FairLock(self.lock_path)
        with self._explain_errors():
            acquired = lock.acquire_from_stopped(PATIENCE)
        if not acquired:
            holder = lock.holder()
            raise GateUnreachable(
                f"{self.path} has been locked for {PATIENCE:.0f} s by a gated transaction"
                + (f" of process {holder[0]}" if holder else "")
                + ". Nothing was written. End that transaction, then try again"
            )
        return lock

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._take_lock()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            then = "Check space, owner and permissions there, then try again"
            if "locked" in str(error):
                then = f"A program that does not use the gate is in a transaction: fuser {self.path} shows which"
            problem = f"could not be sealed, or a transaction begun: {error}. Nothing was written"
            raise GateUnreachable(f"{self.path} {problem}. {then}") from error
        except sqlite3.DatabaseError as error:
            raise GateUnreachable(f"{self.path} cannot be read as a database: {error}. Nothing was written") from error
        except OSError as error:
            raise address.unwritable(self.path, error) from error


class SqliteMarks(SqlMarks):
    tables, placeholder = "nightlatch_", "?"

    def write(self, kept: KeptMark) -> None:
        mark = kept.mark
        self.execute(
            "INSERT INTO nightlatch_mark (gate, lease, token, grant_id, store, at, by) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (gate, lease) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id, "
            "store = excluded.store, at = excluded.at, by = excluded.by",
            *(self.gate, mark.name, mark.token, mark.grant, mark.store, kept.at, kept.by),
        )


def _refuse_timeout(timeout: str | None) -> None:
    if timeout:
        raise UsageError("SQLite cannot end a transaction by itself: `timeout` is for PostgreSQL")


def _path_of(connection: sqlite3.Connection) -> str:
    cursor = connection.cursor()
    cursor.row_factory = None
    return next(str(file or "") for _, name, file in cursor.execute("PRAGMA database_list") if name == "main")


def _exists(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    return found.fetchone() is not None
