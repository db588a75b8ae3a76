"""What became of a transaction whose reply to COMMIT was lost: the server is asked for what only that one wrote."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from psycopg import Connection

    from ..core.model import Mark

# The COMMIT may still be on its way. Ended now, the transaction is decided one way or the other. Who it is tells the
# lock on its random number, looked at in the statement that ends it: a pid, or a transaction id, can come back.
_END = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32 | objid::bigint) = %s"""


def settle(connect: Callable[[], Connection[Any]], number: int, gate: str, mark: Mark) -> bool | None:
    """True: committed. False: certainly not, and it cannot be any more. None: nobody knows.

    Nobody knows when a standby answers, when the transaction cannot be ended, or when two newer holders have sealed
    the gate since.
    """
    from ..system import clock

    deadline = clock.now() + 10.0
    with connect() as connection:
        # The server lets go of a transaction's locks after everybody can see what it committed.
        while connection.execute(_END, (number,)).fetchall():
            if clock.now() > deadline:
                return None
            clock.sleep(0.05)
        query = "SELECT nightlatch_gates.landed(%s::bigint, %s, %s, %s::bigint)"
        row = connection.execute(query, (number, gate, mark.name, mark.token)).fetchone()
        return row[0] if row else None
