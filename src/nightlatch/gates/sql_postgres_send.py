"""Several statements in one message on the user's connection, below psycopg's cursors.

A cursor costs as much as the check itself, and in its default mode psycopg would send a separate BEGIN and wait for
its reply.
"""

from __future__ import annotations

import select
from typing import Any

from psycopg import Connection, pq
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

_SUCCESS = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


def ask(connection: Connection[Any], statements: bytes) -> list[PGresult]:
    """Returns the result of each statement. Raises psycopg's error for the first that failed. Ctrl-C cancels them."""
    pgconn = connection.pgconn
    with connection.lock:
        pgconn.send_query(statements)
        try:
            results = _results(pgconn)
        except BaseException:
            if pgconn.status == pq.ConnStatus.OK:
                pgconn.get_cancel().cancel()
                _results(pgconn)  # a connection with unread results cannot roll back
            raise
    for result in results:
        if result.status not in _SUCCESS:
            raise error_from_result(result)
    return results


def _results(pgconn: PGconn) -> list[PGresult]:
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLOUT | select.POLLIN)
    while pgconn.flush():
        poll.poll()
        pgconn.consume_input()
    poll.modify(pgconn.socket, select.POLLIN)
    found: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return found
        found.append(result)
