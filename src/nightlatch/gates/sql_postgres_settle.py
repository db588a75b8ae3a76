"""Was a transaction committed whose reply to COMMIT was lost? Look for the row that only it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import Connection

from ..core.model import Mark
from ..system import clock

# The COMMIT may still be on its way to the server; ending its session decides the transaction. The session is found by
# its lock on a random number, in the statement that ends it: a pid or a transaction id can be reused.
_END_SESSION = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32 | objid::bigint) = %s"""


def settle(connect: Callable[[], Connection[Any]], number: int, gate: str, mark: Mark) -> bool | None:
    """True: committed. False: certainly not, and never will be. None: unknown.

    It is unknown when a standby replies, when the session cannot be ended, or when two newer holders have sealed the
    gate since.
    """
    deadline = clock.now() + 10.0
    with connect() as connection:
        # The server releases a transaction's locks only after what it committed is visible to all.
        while connection.execute(_END_SESSION, (number,)).fetchall():
            if clock.now() > deadline:
                return None
            clock.sleep(0.05)
        query = "SELECT nightlatch_gates.landed(%s::bigint, %s, %s, %s::bigint)"
        row = connection.execute(query, (number, gate, mark.name, mark.token)).fetchone()
        return row[0] if row else None
