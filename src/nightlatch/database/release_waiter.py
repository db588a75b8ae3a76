"""Waiting for a release: LISTEN on a separate connection, and polling where no notification arrives.

Behind a transaction pooler LISTEN succeeds and nothing ever arrives. So a waiter relies on notifications only after it
has received its own probe, sent through another connection; until then it polls.
"""

from __future__ import annotations

from ..errors import StoreUnreachable
from ..system import clock, identity
from .wire import Broken, ServerRefused, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .postgres import PostgresDatabase

TRUST = 0.5  # seconds until a waiter that gets notifications looks anyway: a holder here may die and send none
_RETRY_AFTER = 5.0  # seconds between two tries to listen
_PATIENCE = 2.0  # seconds for one such try


class NotifiedWaiter:
    """Waits for one lease, in one thread. Its connection is kept for the next wait of this process."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database, self._name = database, name
        self._pool = database.connections.pool
        self._wire: Wire | None = None
        self._probe = "?" + identity.new_id()  # not a valid lease name
        self._proven = False
        self._try_at = 0.0
        self._open()

    def wait(self, seconds: float) -> None:
        if self._wire is None and clock.now() >= self._try_at and self._open():
            return  # no notification came of a release before this moment, so the caller looks again first
        if self._wire is None:
            clock.sleep(min(seconds, self._database.poll_every))
            return
        until = clock.now() + min(seconds, TRUST if self._proven else self._database.poll_every)
        try:
            while payloads := self._wire.wait_for_notifications(until):
                self._proven = self._proven or self._probe in payloads
                if self._name in payloads:
                    return
        except Broken:
            self._wire.close()
            self._wire = None

    def close(self) -> None:
        if self._wire is not None:
            try:
                # A connection that listens and is never read would block the server's queue for everybody. The answer
                # is left to the next wait: this caller has its lease, and work to do.
                self._wire.post(b"UNLISTEN *")
            except Broken:
                self._wire.close()
            else:
                self._pool.waiters.append((self._wire, self._proven))
            self._wire = None

    def _open(self) -> bool:
        self._try_at = clock.now() + _RETRY_AFTER
        deadline = clock.now() + _PATIENCE
        try:
            wire = self._kept_wire() or self._database.connections.dial(deadline)
        except Broken:
            return False
        try:
            if self._proven or wire.is_direct(deadline):
                wire.execute(f"LISTEN {self._database.schema}".encode(), [], deadline)
                if not self._proven:
                    self._notify_ourselves()
                self._wire = wire
                return True
            self._try_at = float("inf")  # a pooler: our LISTEN would stay behind on a session that others use
        except (Broken, ServerRefused, StoreUnreachable):
            pass  # no notifications, then; polling the store shows what is wrong
        wire.close()
        return False

    def _notify_ourselves(self) -> None:
        self._database.write("SELECT pg_notify(:channel, :probe)", channel=self._database.schema, probe=self._probe)

    def _kept_wire(self) -> Wire | None:
        while self._pool.waiters:
            wire, proven = self._pool.waiters.pop()
            if wire.alive:
                self._proven = proven
                return wire
            wire.close()
        return None
