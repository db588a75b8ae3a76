"""A process's connections to PostgreSQL: a few, shared by its threads; opened when needed, and again after a fork.

A connection that is known to be dead before anything is sent on it is replaced silently.
"""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue

from psycopg import Error as PsycopgError
from psycopg.conninfo import make_conninfo

from ..errors import StoreUnreachable
from ..system import clock
from . import dsn
from .wire import Broken, ServerRefused, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .postgres_schema import PostgresSchema

_MOST = 4  # at once, for all threads of a process

# When a server vanishes, the kernel must not wait for a quarter of an hour.
_DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "nightlatch",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class PostgresConnections:
    def __init__(self, url: str, schema: PostgresSchema) -> None:
        self._schema = schema
        try:
            conninfo = make_conninfo(dsn.split(url)[0])
            self._conninfo = make_conninfo(conninfo, **{k: v for k, v in _DEFAULTS.items() if f"{k}=" not in conninfo})
        except PsycopgError:
            raise dsn.bad(url) from None
        self._pool = Pool()
        self.facts: dict[str, str] = {}  # recorded when the tables were made; {} before the first connection

    @property
    def pool(self) -> Pool:
        if self._pool.made_by != os.getpid():
            self._pool = Pool()  # after a fork: the connections belong to the parent
        return self._pool

    def borrow(self, deadline: float) -> Borrowed:
        """`with connections.borrow(deadline) as wire:` gives a connection to tables that are up to date."""
        return Borrowed(self, deadline)

    def dial(self, deadline: float) -> Wire:
        """A new connection; the tables are not checked."""
        return Wire(self._conninfo, deadline)

    def open(self, deadline: float) -> Wire:
        """A new connection; the tables are brought up to date first."""
        wire = self.dial(deadline)
        try:
            meta = self._schema.read(wire, deadline)
            self._check_same(meta)
            if not self._schema.is_complete(meta):
                meta = self._schema.migrate(wire, deadline)
            self.facts = meta
            wire.prepares = int(meta["backend"]) == wire.backend
        except BaseException:
            wire.close()
            raise
        return wire

    def _check_same(self, meta: dict[str, str]) -> None:
        """Raise if the tables that this process has used are gone, as while a dump is being restored, or were
        replaced by other tables: an empty store would hand out leases that are held, and start jobs that are paused."""
        name = f"{self._schema.area}.id"
        if self.facts and meta.get(name) != self.facts[name]:
            problem = "is not the same as before" if name in meta else "has lost its tables"
            raise StoreUnreachable(
                f"the store {self._schema.where} {problem} (id {self.facts[name][:8]}). If a backup is being restored, "
                f"wait; to use what is there now, start this again"
            )


class Pool:
    """Idle connections of one process, and how many more may be opened."""

    def __init__(self) -> None:
        self.made_by = os.getpid()
        self.turns: SimpleQueue[None] = SimpleQueue()  # used as a semaphore: ten times as fast as threading's
        for _ in range(_MOST):
            self.turns.put(None)
        self.idle: list[Wire] = []
        self.waiters: list[tuple[Wire, bool]] = []  # (connection, notifications have arrived on it)

    def close(self) -> None:
        while self.idle:
            self.idle.pop().close()
        while self.waiters:
            self.waiters.pop()[0].close()


class Borrowed:
    """A connection for one verb or one transaction. It goes back to the pool unless it broke."""

    def __init__(self, connections: PostgresConnections, deadline: float) -> None:
        self._connections, self._deadline = connections, deadline
        self._pool = connections.pool

    def __enter__(self) -> Wire:
        try:
            self._pool.turns.get(timeout=max(self._deadline - clock.now(), 0))
        except Empty:
            raise Broken(f"all {_MOST} connections of this process are in use") from None
        try:
            self._wire = self._idle() or self._connections.open(self._deadline)
        except BaseException:
            self._pool.turns.put(None)
            raise
        return self._wire

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is None or isinstance(error, ServerRefused):
            self._pool.idle.append(self._wire)
        else:
            self._wire.close()  # an answer may still arrive on it, which the next user would take for its own
        self._pool.turns.put(None)

    def _idle(self) -> Wire | None:
        while self._pool.idle:
            wire = self._pool.idle.pop()
            if wire.alive:
                return wire
            wire.close()  # dead before anything was sent: the next one is used
        return None
