"""What became of a transaction whose reply to COMMIT was lost: the server is asked by its number."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from psycopg import Connection


def settle(connect: Callable[[], Connection[Any]], xid: str, server_start: str) -> bool | None:
    """True: committed. False: certainly not, and it cannot be any more. None: nobody knows.

    After a restart it may be another server that answers (a standby that took over), to which the
    number may mean another transaction: then nobody knows.
    """
    from ..system import clock

    deadline = clock.now() + 10.0
    with connect() as connection:
        while True:
            row = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()
            if not row or row[0] != server_start:
                return None
            row = connection.execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
            status = row[0] if row else None
            if status in ("committed", "aborted"):
                return bool(status == "committed")
            if status is None or clock.now() > deadline:
                return None
            # The COMMIT may still be on its way. Ended now, it is decided one way or the other.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = %s::xid8::xid", (xid,)
            )
            clock.sleep(0.05)
