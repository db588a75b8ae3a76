"""The user's transaction on PostgreSQL, from the check to its end, and what is known when the end went wrong."""

from __future__ import annotations

import psycopg
from psycopg import pq

from ..errors import GateUnreachable, InDoubt, UsageError
from .sql_postgres_send import ask
from .sql_postgres_settle import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .sql_postgres import Postgres


class Entered:
    """The user's transaction, which has the mark's row share-locked."""

    def __init__(self, database: Postgres, connection: psycopg.Connection[Any]) -> None:
        self._database, self._connection = database, connection
        self._xid = self._server_start = b""

    def begin(self, statement: bytes) -> bool:
        """False, and rolled back, if the mark does not stand."""
        _, row = ask(self._connection, statement)
        self._xid, self._server_start = row.get_value(0, 0) or b"", row.get_value(0, 1) or b""
        if not self._xid:
            self.rollback()
        return bool(self._xid)

    def commit(self) -> None:
        status = self._connection.pgconn.transaction_status
        if status == pq.TransactionStatus.INERROR:
            self.rollback()
            raise UsageError(
                "a statement of the block failed and its error was caught, so the server has undone everything. "
                "Let the error leave the block, or wrap that statement in connection.transaction()"
            )
        if status == pq.TransactionStatus.IDLE:
            raise UsageError(
                "the block ended its transaction by itself: what it wrote after that was not fenced. "
                "Leave commit and rollback to the gate"
            )
        try:
            self._connection.commit()
        except psycopg.Error as error:
            if not self._connection.closed and self._connection.info.transaction_status in (
                pq.TransactionStatus.IDLE,
                pq.TransactionStatus.INERROR,
            ):
                self.rollback()
                raise  # the server said no: a deferred constraint, a serialization failure. Nothing was committed
            self._settle(error)

    def _settle(self, error: psycopg.Error) -> None:
        """The reply was lost. The server knows what became of the transaction."""
        try:
            committed = settle(self._database.connect, self._xid.decode(), self._server_start.decode())
        except psycopg.Error as failed:
            raise self._in_doubt(f"and the server cannot be asked: {line(failed)}") from error
        if committed is None:
            raise self._in_doubt("and the server does not know any more") from error
        if not committed:
            raise GateUnreachable(
                f"{self._database.url}: the connection broke at the commit, and the server says that the transaction "
                f"was not committed. Nothing was written; do it again on a new connection"
            ) from error

    def _in_doubt(self, why: str) -> InDoubt:
        return InDoubt(
            f"{self._database.url}: the reply to the commit was lost, {why}. Whether transaction {self._xid.decode()} "
            f"is in the database can only be seen there: look before you repeat it"
        )

    def rollback(self) -> None:
        try:
            if not self._connection.closed:
                self._connection.rollback()
        except psycopg.Error as error:
            if not self._connection.closed:
                raise GateUnreachable(f"the transaction could not be rolled back: {line(error)}") from error

    def cut_off(self) -> bool:
        return bool(self._connection.closed)


def line(error: BaseException) -> str:
    """What the server said, in one line."""
    return " ".join(str(error).split()).rstrip(".")
