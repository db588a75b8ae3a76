"""Hearing of a release: LISTEN on a connection of its own, and polling where nothing can be heard.

Behind a transaction pooler LISTEN succeeds and nothing ever comes. So an ear is believed only when it
has heard our own voice, sent through another connection; until then the store is looked at as if
there were no ear.
"""

from __future__ import annotations

from ..errors import StoreUnreachable
from ..system import clock, identity
from .wire import Broken, ServerRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .postgres import PostgresDatabase
    from .wire import Wire

TRUST = 0.5  # seconds between two looks of a waiter that can hear: a holder here may die without a word
_AGAIN = 5.0  # seconds between two tries to open an ear
_PATIENCE = 2.0  # seconds for opening one


class NotifiedWaiter:
    """An ear for one lease, for one thread. Its connection is kept for the next wait of this process."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database, self._name = database, name
        self._pool = database.pool
        self._wire: Wire | None = None
        self._voice = "?" + identity.new_id()  # no lease can be named so
        self._proven = False
        self._try_at = 0.0
        self._open()

    def wait(self, seconds: float) -> None:
        if self._wire is None and clock.now() >= self._try_at and self._open():
            return  # what was released before this ear was open has not been heard
        if self._wire is None:
            clock.sleep(min(seconds, self._database.poll_every))
            return
        until = clock.now() + min(seconds, TRUST if self._proven else self._database.poll_every)
        try:
            while heard := self._wire.notified(until):
                self._proven = self._proven or self._voice in heard
                if self._name in heard:
                    return
        except Broken:
            self._wire.close()
            self._wire = None

    def close(self) -> None:
        if self._wire is not None:
            try:
                # An ear that listens and is not read would hold up the server's queue for everybody. The
                # answer is left for the next wait: this one has its lease, and work to do.
                self._wire.post(b"UNLISTEN *")
            except Broken:
                self._wire.close()
            else:
                self._pool.waiters.append((self._wire, self._proven))
            self._wire = None

    def _open(self) -> bool:
        self._try_at = clock.now() + _AGAIN
        deadline = clock.now() + _PATIENCE
        try:
            wire = self._kept() or self._database.dial(deadline)
        except Broken:
            return False
        try:
            if self._proven or self._direct(wire, deadline):
                wire.execute(f"LISTEN {self._database.schema}".encode(), [], deadline)
                if not self._proven:
                    self._speak()
                self._wire = wire
                return True
            self._try_at = float("inf")  # a pooler: our LISTEN would be left behind on somebody else's session
        except (Broken, ServerRefused, StoreUnreachable):
            pass  # no ear, then; the store is looked at, and that tells what is wrong
        wire.close()
        return False

    def _direct(self, wire: Wire, deadline: float) -> bool:
        return wire.execute(b"SELECT pg_backend_pid()", [], deadline) == [(wire.backend,)]

    def _speak(self) -> None:
        self._database.write("SELECT pg_notify(:channel, :voice)", channel=self._database.schema, voice=self._voice)

    def _kept(self) -> Wire | None:
        while self._pool.waiters:
            wire, proven = self._pool.waiters.pop()
            if wire.alive:
                self._proven = proven
                return wire
            wire.close()
        return None
