"""Leases on a server, and the sessions they are held through."""

from __future__ import annotations

import subprocess
import threading

from nightlatch.core.protocols import Store
from nightlatch.errors import StoreUnreachable
from nightlatch.runtime.shared.leases.acquire import acquire
from nightlatch.system import identity
from tests.support.servers.postgres import PostgresServer


def take(store: Store, name: str, *, ttl: float = 60.0, wait: float = 0.0) -> tuple[str, int]:
    grant = identity.new_id()
    return grant, acquire(store, name, grant, identity.holder(pid=0), ttl, wait)[0].token


class InBackground(threading.Thread):
    """A waiter; `result` is the grant and token it got."""

    def __init__(self, store: Store, name: str, wait: float) -> None:
        super().__init__(daemon=True)
        self._asked = store, name, wait
        self.result: tuple[str, int] | BaseException | None = None
        self.start()

    def run(self) -> None:
        store, name, wait = self._asked
        try:
            self.result = take(store, name, wait=wait)
        except BaseException as error:  # noqa: BLE001 - a test looks at it
            self.result = error

    def got(self, within: float = 60.0) -> tuple[str, int]:
        self.join(within)
        assert isinstance(self.result, tuple), self.result
        return self.result


def version(store: Store, name: str) -> int:
    try:
        record = store.read(name)
    except StoreUnreachable:
        return 0
    return int(record.version) if record else 0


def end_sessions(server: PostgresServer) -> None:
    """Every session but psql's own is over when this returns."""
    others = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    server.psql(f"SELECT pg_terminate_backend(pid, 60000) FROM ({others}) AS others")


def someone_listens(server: PostgresServer) -> bool:
    return bool(server.psql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'"))


def ends(program: subprocess.Popen[str]) -> int:
    """Its exit code, when it has ended."""
    _, said = program.communicate(timeout=60)
    print(said)
    return program.returncode
