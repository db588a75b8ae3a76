"""The user's transaction on SQLite, from the check to commit or rollback, and what is known if that fails."""

from __future__ import annotations

import sqlite3

from ..core.model import Mark
from ..errors import GateUnreachable, InDoubt, UsageError
from ..system.filelock import FairLock
from . import sql_sqlite_triggers as triggers

_CHECK = (
    f"SELECT {triggers.FUNCTION}(?1) FROM nightlatch_mark WHERE gate = ?1 AND lease = ?2 AND token = ?3 "
    f"AND grant_id = ?4 AND store = ?5"
)
_SAVEPOINT = "nightlatch_gate"
_ENDED_BY_BLOCK = (
    "the block ended its transaction by itself: what it wrote after that was not fenced, and {}. "
    "Leave commit and rollback to the gate; a statement that may fail belongs into a savepoint"
)


class SqliteTransaction:
    """The user's transaction, inside BEGIN IMMEDIATE: no seal can happen during it."""

    def __init__(self, connection: sqlite3.Connection, lock: FairLock, gate: str, mark: Mark) -> None:
        self._connection, self._lock = connection, lock
        self._gate, self._mark = gate, mark
        self._was_autocommit = False

    def admitted(self) -> bool:
        """Is the mark the gate's current one? Then the triggers admit it on this connection."""
        mark = self._mark
        values = (self._gate, mark.name, mark.token, mark.grant, mark.store)
        triggers.set_mark(self._connection, self._gate, mark)
        for _ in range(2):
            cursor = self._connection.cursor()
            cursor.row_factory = None
            try:
                return cursor.execute(_CHECK, values).fetchone() is not None and self._set_savepoint()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return False
                if "no such function" not in str(error):
                    raise
                triggers.define(self._connection)
        raise AssertionError("a function that was defined is not there")

    def _set_savepoint(self) -> bool:
        """Set a savepoint by which `commit` recognises this transaction, and turn autocommit off for later ones."""
        self._connection.execute(f"SAVEPOINT {_SAVEPOINT}")
        self._was_autocommit = self._connection.isolation_level is None
        if self._was_autocommit:
            self._connection.isolation_level = "IMMEDIATE"
        return True

    def commit(self) -> None:
        try:
            if not self._connection.in_transaction:
                raise UsageError(_ENDED_BY_BLOCK.format("may be in the database"))
            self._commit()
        finally:
            self._leave()

    def _commit(self) -> None:
        try:
            self._connection.execute(f"RELEASE {_SAVEPOINT}")  # the savepoint lives exactly as long as the transaction
        except sqlite3.OperationalError as error:
            if "no such savepoint" not in str(error):
                raise  # a statement of the block is still running
            rolled_back = "has been rolled back, but for what a script wrote (executescript commits by itself)"
            raise UsageError(_ENDED_BY_BLOCK.format(rolled_back)) from error
        try:
            self._connection.execute("COMMIT")  # connection.commit() does nothing with autocommit=True
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                raise  # still open: so it certainly was not committed
            raise InDoubt(
                f"SQLite failed in the middle of the commit ({error}): whether the transaction is in the database "
                f"can only be seen there. Look before you repeat it"
            ) from error

    def rollback(self) -> None:
        try:
            self._leave()
        except sqlite3.Error as error:
            raise GateUnreachable(f"the transaction could not be rolled back: {error}. Close the connection") from error

    def cut_off(self) -> bool:
        return False  # only its own process can end a SQLite transaction

    def _leave(self) -> None:
        """Roll back what is open, and restore the connection's settings."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if self._was_autocommit:
                self._connection.isolation_level = None
        finally:
            triggers.clear_mark(self._connection)
            self._lock.release()
