"""One connection to PostgreSQL on which every step has a deadline.

psycopg's own connections wait for an answer without a limit, and for a connection two seconds or more; a renewal must
give up after a sixth of its TTL. So this drives libpq itself. It changes no session setting, and prepares
statements only if there is certainly no pooler in between.
"""

from __future__ import annotations

import hashlib
import select

from psycopg import OperationalError, pq
from psycopg.adapt import Transformer

from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Row = tuple[Any, ...]

_INT8, _TEXT = 20, 25
_PIPELINES = 140_000  # the first version of libpq that can send a statement before the previous one is answered
_NO_SUCH_STATEMENT, _ALREADY_PREPARED = "26000", "42P05"
# A type → how its values are read; values of all other types are text.
_READERS: dict[int, Callable[[bytes], object]] = {_INT8: int, 21: int, 23: int, 16: b"t".__eq__}
_SAME_IN_PSYCOPG = frozenset({*_READERS, _TEXT})  # psycopg reads these as we do, and a long answer five times as fast
_LONG = 20  # rows; an answer with more of them is long


class Broken(Exception):
    """No answer came. The statement may have happened, or not, or may still happen."""


class ServerRefused(Exception):
    """The server answered with an error: the statement did not happen."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Wire:
    """Used by one thread at a time. After `Broken` it cannot be used: close it.

    A child that drops it after a fork leaves the parent's connection alone; psycopg ensures that.
    """

    def __init__(self, conninfo: str, deadline: float) -> None:
        self.prepares = False  # set by the owner if there is certainly no pooler in between
        self._answer_unread = False  # the answer to `post`
        # (a statement that was used before, the types of its values) → its name on the server; b"": not prepared yet.
        self._names: dict[tuple[bytes, tuple[type, ...]], bytes] = {}
        self._poll = select.poll()
        self._connection = pq.PGconn.connect_start(conninfo.encode())
        try:
            self._connect(deadline)
        except BaseException:
            self._connection.finish()
            raise

    def execute(self, sql: bytes, values: Sequence[object], deadline: float, *, prepare: bool = False) -> list[Row]:
        """Run one statement; returns its rows. Raises `Broken` if there is no answer by `deadline`.

        `prepare` is for statements that are a whole transaction: if the server does not know the name, the transaction
        fails, and the statement is sent in full.
        """
        self._settle(deadline)
        name = self._prepared(sql, values, deadline) if prepare and self.prepares else b""
        try:
            self._send(name, sql, values)
            return self._rows(self._answer(deadline))
        except OperationalError as error:
            raise Broken(str(error)) from error
        except ServerRefused as refused:
            if refused.sqlstate != _NO_SUCH_STATEMENT:
                raise
            self.prepares = False  # the session is shared after all; nothing has happened yet
            return self.execute(sql, values, deadline)

    def execute_together(
        self, statements: Sequence[tuple[bytes, Sequence[object]]], deadline: float
    ) -> list[list[Row]]:
        """Run several statements in one round trip; returns the rows of each. If one is refused, those after it are
        not run. Raises as `execute` does."""
        if len(statements) == 1 or pq.version() < _PIPELINES:
            return [self.execute(*one, deadline) for one in statements]
        self._settle(deadline)
        connection = self._connection
        found: list[list[Row]] = []
        refused: ServerRefused | None = None
        try:
            connection.enter_pipeline_mode()
            for one in statements:
                self._send(b"", *one)
            connection.pipeline_sync()
            for _ in statements:
                answer = self._answer(deadline)
                try:
                    found += [] if refused else [self._rows(answer)]
                except ServerRefused as error:
                    refused = error
            self._answer(deadline, until=pq.ExecStatus.PIPELINE_SYNC)
            connection.exit_pipeline_mode()
        except OperationalError as error:
            raise Broken(str(error)) from error
        if refused:
            raise refused
        return found

    def post(self, sql: bytes) -> None:
        """Send a statement without waiting for its answer; the next call reads it."""
        try:
            self._connection.send_query_params(sql, None)
            self._answer_unread = True
            self._connection.flush()
        except OperationalError as error:
            raise Broken(str(error)) from error

    def _settle(self, deadline: float) -> None:
        """Read the answer to `post`, if there is one."""
        if self._answer_unread:
            try:
                self._rows(self._answer(deadline))
            except OperationalError as error:
                raise Broken(str(error)) from error
            self._answer_unread = False

    def _send(self, name: bytes, sql: bytes, values: Sequence[object]) -> None:
        parameters = [
            value.encode() if type(value) is str else None if value is None else str(value).encode() for value in values
        ]
        if name:
            self._connection.send_query_prepared(name, parameters)
        else:
            self._connection.send_query_params(sql, parameters, param_types=_types(values))

    def _prepared(self, sql: bytes, values: Sequence[object], deadline: float) -> bytes:
        """The statement's name on the server; b"" at its first use, since a command uses most statements once.

        The name is a hash of the statement, so even on a session that is shared after all it can mean no other.
        """
        what = sql, tuple(map(type, values))
        name = self._names.get(what)
        if name is None:
            self._names[what] = b""
            return b""
        if not name:
            types = _types(values)
            name = b"nightlatch_" + hashlib.sha256(repr((sql, types)).encode()).hexdigest()[:32].encode()
            try:
                self._connection.send_prepare(name, sql, types)
                self._rows(self._answer(deadline))
            except OperationalError as error:
                raise Broken(str(error)) from error
            except ServerRefused as refused:
                if refused.sqlstate != _ALREADY_PREPARED:
                    raise
            self._names[what] = name
        return name

    def _answer(self, deadline: float, until: pq.ExecStatus | None = None) -> pq.abc.PGresult | None:
        """The last result of a statement, or the last before a result with the status `until`."""
        connection, answer = self._connection, None
        while connection.flush():
            if self._await(select.POLLIN | select.POLLOUT, deadline) & select.POLLIN:
                connection.consume_input()
        while True:
            while connection.is_busy():
                self._await(select.POLLIN, deadline)
                connection.consume_input()
            result = connection.get_result()
            if result is None or result.status == until:
                return answer
            answer = result

    @property
    def alive(self) -> bool:
        """False if the other end is known to be gone. Asked before anything is sent."""
        try:
            while self._poll.poll(0):
                self._connection.consume_input()
        except OperationalError:
            return False
        return bool(self._connection.status == pq.ConnStatus.OK)

    @property
    def backend(self) -> int:
        """The server process's id, as the other end reported it; a pooler reports a made-up one."""
        return self._connection.backend_pid

    def is_direct(self, deadline: float) -> bool:
        """Is there no pooler in between? It would give each transaction another server process."""
        return self.execute(b"SELECT pg_backend_pid()", [], deadline) == [(self.backend,)]

    def wait_for_notifications(self, deadline: float) -> list[str]:
        """Wait for notifications until `deadline`; returns their payloads, or [] if none came."""
        try:
            while True:
                self._connection.consume_input()
                payloads = []
                while (notify := self._connection.notifies()) is not None:
                    payloads.append(notify.extra.decode())
                left = deadline - clock.now()
                if payloads or left <= 0:
                    return payloads
                self._poll.poll(left * 1000 + 1)
        except OperationalError as error:
            raise Broken(str(error)) from error

    def close(self) -> None:
        self._connection.finish()

    def _connect(self, deadline: float) -> None:
        connection, registered = self._connection, -1
        if connection.status == pq.ConnStatus.BAD:
            raise Broken(connection.get_error_message())
        while (status := connection.connect_poll()) != pq.PollingStatus.OK:
            if status == pq.PollingStatus.FAILED:
                raise Broken(connection.get_error_message())
            if registered != connection.socket:  # libpq has gone on to the next address
                self._poll, registered = select.poll(), connection.socket
            wanted = select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT
            self._poll.register(registered, wanted)
            if not self._poll.poll(max(deadline - clock.now(), 0) * 1000):
                raise Broken("no answer in time")
        self._poll = select.poll()
        self._poll.register(connection.socket, select.POLLIN)
        connection.nonblocking = 1

    def _await(self, events: int, deadline: float) -> int:
        left = deadline - clock.now()
        if events == select.POLLIN:
            ready = self._poll.poll(max(left, 0) * 1000)
        else:
            both = select.poll()
            both.register(self._connection.socket, events)
            ready = both.poll(max(left, 0) * 1000)
        if not ready:
            raise Broken("no answer in time")
        return ready[0][1]

    def _rows(self, answer: pq.abc.PGresult | None) -> list[Row]:
        if answer is None:
            raise Broken(self._connection.get_error_message())
        if answer.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            sqlstate = (answer.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            message = (answer.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
            if not sqlstate or self._connection.status != pq.ConnStatus.OK:
                # The session ended with this error, perhaps after the commit.
                raise Broken(message or self._connection.get_error_message())
            raise ServerRefused(sqlstate, message)
        types = [answer.ftype(column) for column in range(answer.nfields)]
        if answer.ntuples > _LONG and _SAME_IN_PSYCOPG.issuperset(types):
            loader = Transformer()
            loader.set_pgresult(answer)
            return loader.load_rows(0, answer.ntuples, tuple)
        readers = [_READERS.get(kind, bytes.decode) for kind in types]
        return [
            tuple(
                None if (text := answer.get_value(row, column)) is None else read(text)
                for column, read in enumerate(readers)
            )
            for row in range(answer.ntuples)
        ]


def _types(values: Sequence[object]) -> list[int]:
    return [_INT8 if isinstance(value, int) else _TEXT for value in values]
