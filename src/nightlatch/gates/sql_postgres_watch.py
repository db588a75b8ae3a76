"""Ending the session of an older holder that keeps a seal waiting.

A client stopped in COPY, or while it fetches, is not idle for the server, so no idle timeout ends it. A second
connection finds the session that the seal waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from ..errors import GateUnreachable

SEAL = "nightlatch seal"  # application_name of our own sessions

_LOOK_EVERY = 0.1  # seconds

# If a seal waits for a transaction, that transaction has locked the mark's row under an older mark. Waits of other
# kinds (for a table, for another seal) are legitimate, and end no session.
_BLOCKERS = """
SELECT a.pid, a.usename, a.application_name, a.client_addr::text, a.state{ended}
FROM pg_locks l, unnest(pg_blocking_pids(l.pid)) AS blocker (pid)
LEFT JOIN pg_stat_activity a ON a.pid = blocker.pid
WHERE l.pid = %s AND NOT l.granted AND l.locktype = 'transactionid' AND a.application_name IS DISTINCT FROM %s"""


class SealWatch:
    """Watches one waiting seal, from a separate thread and connection."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], url: str) -> None:
        self._connect, self._url = connect, url
        self._done = threading.Event()
        self._reason = ""

    @contextmanager
    def ending_blockers(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """While the block uses `connection` and waits there for a lock, end the session that holds the lock."""
        thread = threading.Thread(
            target=self._watch, args=(connection.info.backend_pid,), name="nightlatch-watch", daemon=True
        )
        thread.start()
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise GateUnreachable(
                f"{self._url} cannot be sealed: "
                + (
                    self._reason
                    or "another session keeps the table of its marks locked: look at pg_locks. Then try again"
                )
            ) from error
        finally:
            self._done.set()
            thread.join()

    def _watch(self, sealer: int) -> None:
        try:
            with self._connect() as connection:
                while not self._done.wait(_LOOK_EVERY):
                    self._end_blockers(connection, (sealer, SEAL))
        except psycopg.Error as error:
            self._reason = (
                f"an older holder is in a transaction, and its session cannot be found: {' '.join(str(error).split())}"
            )

    def _end_blockers(self, connection: psycopg.Connection[Any], values: tuple[int, str]) -> None:
        """Find and end the blockers in one statement: a pid read by an earlier one may be another session's by now."""
        try:
            blockers = connection.execute(_BLOCKERS.format(ended=", pg_terminate_backend(a.pid)"), values).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            blockers = connection.execute(_BLOCKERS.format(ended=", NULL"), values).fetchall()
        for pid, *session, ended in blockers:
            if not pid:
                self._reason = "an older holder left a prepared transaction (pg_prepared_xacts): ROLLBACK PREPARED it"
            elif ended is None:
                user, program, address, state = (part or "?" for part in session)
                self._reason = (
                    f"session {pid} of {user} ({program}, {address}, {state}) is an older holder's, not ours to end: "
                    f"SELECT pg_terminate_backend({pid}) as a superuser, and GRANT pg_signal_backend for the next time"
                )
