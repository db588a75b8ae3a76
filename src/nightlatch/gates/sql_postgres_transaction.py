"""The user's transaction on PostgreSQL, from the check to commit or rollback, and what is known if that fails."""

from __future__ import annotations

import os

import psycopg
from psycopg import pq

from ..errors import GateUnreachable, InDoubt, UsageError
from . import sql_postgres_schema as schema
from .sql_postgres_send import ask
from .sql_postgres_settle import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.model import Mark
    from .sql_postgres import Postgres

# By URL: passages (ctid, number) of this process's ended transactions. A new transaction overwrites one, so that the
# table does not grow.
_spare_passages: dict[str, list[tuple[str, int]]] = {}
os.register_at_fork(after_in_child=_spare_passages.clear)  # else parent and child would wait for one passage

_ENDED_BY_BLOCK = (
    "the block ended its transaction by itself: what it wrote after that was not fenced, and {}. "
    "Leave commit and rollback to the gate; a statement that may fail belongs into connection.transaction()"
)


class PostgresTransaction:
    """The user's transaction, which has the mark's row share-locked."""

    def __init__(self, database: Postgres, connection: psycopg.Connection[Any], gate: str, mark: Mark) -> None:
        self._database, self._connection = database, connection
        self._gate, self._mark = gate, mark
        self._number = int.from_bytes(os.urandom(8)) >> 1  # of our passage
        self._ctid = ""
        self._spare_passages = _spare_passages.setdefault(database.url, [])
        self._my_spare: tuple[str, int] | None = None  # goes to _spare_passages at the end
        self._inside = self._was_autocommit = False

    def begin(self, head: bytes, tail: bytes) -> bool:
        """Begin and check. If the mark is not the gate's current one: roll back, and return False."""
        try:
            self._my_spare = self._spare_passages.pop()
        except IndexError:
            spare = "NULL, NULL"
        else:
            spare = "'{}', {}".format(*self._my_spare)
        self._was_autocommit = self._connection.autocommit
        if self._was_autocommit:
            self._connection.autocommit = False
        # As inside connection.transaction(): psycopg refuses commit() and rollback() until the block is left.
        self._connection._num_transactions += 1
        self._inside = True
        _, row = ask(self._connection, head + f"{self._number}, {spare}".encode() + tail)
        self._ctid = (row.get_value(0, 0) or b"").decode()
        if not self._ctid:
            self.rollback()
        return bool(self._ctid)

    def commit(self) -> None:
        pgconn = self._connection.pgconn
        try:
            if pgconn.transaction_status == pq.TransactionStatus.INERROR:
                raise UsageError(
                    "a statement of the block failed and its error was caught, so the server has undone everything. "
                    "Let the error leave the block, or wrap that statement in connection.transaction()"
                )
            if pgconn.transaction_status == pq.TransactionStatus.IDLE:
                raise UsageError(_ENDED_BY_BLOCK.format("may be in the database"))
            if pgconn.pipeline_status != pq.PipelineStatus.OFF:
                raise UsageError("the connection is still in pipeline mode: leave the pipeline inside the block")
            self._commit()
        finally:
            self.rollback()  # what is still open; after a COMMIT there is nothing

    def _commit(self) -> None:
        try:
            # Only the transaction that came through the gate has this cursor. If CLOSE fails, the server skips COMMIT.
            ask(self._connection, f"CLOSE {schema.CURSOR}; COMMIT".encode())
        except psycopg.Error as error:
            if isinstance(error, psycopg.errors.InvalidCursorName):
                raise UsageError(_ENDED_BY_BLOCK.format("has been rolled back")) from error
            if not self._connection.closed and self._connection.info.transaction_status in (
                pq.TransactionStatus.IDLE,
                pq.TransactionStatus.INERROR,
            ):
                raise  # the server refused: a deferred constraint, a serialization failure. Nothing was committed
            self._settle(error)
        else:
            self._my_spare = self._ctid, self._number

    def _settle(self, error: psycopg.Error) -> None:
        """The reply was lost: ask the server whether the transaction was committed."""
        try:
            committed = settle(self._database.connect, self._number, self._gate, self._mark)
        except psycopg.Error as failed:
            raise self._in_doubt(f"and the server cannot be reached: {one_line(failed)}") from error
        if committed is None:
            raise self._in_doubt("and the server no longer knows") from error
        if not committed:
            raise GateUnreachable(
                f"{self._database.url}: the connection broke at the commit, and the server says that the transaction "
                f"was not committed. Nothing was written; do it again on a new connection"
            ) from error

    def _in_doubt(self, why: str) -> InDoubt:
        return InDoubt(
            f"{self._database.url}: the reply to the commit was lost, {why}. Whether the transaction is in "
            f"the database can only be seen there: look before you repeat it"
        )

    def rollback(self) -> None:
        try:
            self._leave()
        except psycopg.Error as error:
            if not self._connection.closed:
                raise GateUnreachable(f"the transaction could not be rolled back: {one_line(error)}") from error

    def _leave(self) -> None:
        """Roll back what is open, restore the connection's settings, and free a passage for the next transaction."""
        if self._inside:
            self._inside = False
            self._connection._num_transactions -= 1
            if self._my_spare:
                self._spare_passages.append(self._my_spare)
        if not self._connection.closed:
            if self._connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                self._connection.rollback()
            if self._was_autocommit:
                self._connection.autocommit = True

    def cut_off(self) -> bool:
        return bool(self._connection.closed)


def one_line(error: BaseException) -> str:
    """The server's message, in one line."""
    return " ".join(str(error).split()).rstrip(".")
