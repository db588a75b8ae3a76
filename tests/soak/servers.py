"""The servers that all courses share, and the weather: what happens to servers and networks meanwhile."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.servers import s3
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres_proxy import Proxy
from tests.support.workloads.fault_log import FaultLog

ENDPOINT, PORT = "SOAK_S3_ENDPOINT", "SOAK_POSTGRES_PORT"  # how the courses find them


class Servers:
    """PostgreSQL behind a proxy and an S3 server behind another; each is started when a course needs it."""

    def __init__(self, needs: set[str]) -> None:
        self._stack = ExitStack()
        self.environment: dict[str, str] = {}
        self.postgres: PostgresServer | None = None
        self.lost_puts: list[str] | None = None
        if "postgres" in needs:
            self.postgres = PostgresServer()
            self._stack.callback(self.postgres.remove)
            self.proxy = self._stack.enter_context(Proxy(self.postgres.port))
            self.environment[PORT] = str(self.proxy.port)
        if "object" in needs:
            endpoint, self.lost_puts = self._stack.enter_context(s3.lossy(self._stack.enter_context(s3.server())))
            self.environment[ENDPOINT] = endpoint

    def close(self) -> None:
        self._stack.close()


class Weather:
    """Restarts, kills and pauses PostgreSQL, and loses replies, while a course runs that uses what is hit."""

    def __init__(self, servers: Servers, seed: str, folder: Path, in_use: Callable[[], set[str]]) -> None:
        self.faults: Counter[str] = Counter()
        self.trouble: BaseException | None = None
        self._servers, self._chance, self._in_use = servers, random.Random(seed), in_use
        self._log = FaultLog(folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow)
        self._thread.start()

    def end(self) -> None:
        """Everything is up and passes on what it is given again."""
        self._over.set()
        self._thread.join()

    def _blow(self) -> None:
        try:
            while not self._over.wait(self._chance.uniform(1.0, 7.0)):
                kind, seconds = self._chance.choice(list(KINDS)), self._chance.choice((0.3, 1.0, 2.5))
                if KINDS[kind] in self._in_use():
                    self._log.note(kind, seconds)
                    self.faults[kind] += self._strike(kind, seconds)
        except BaseException as error:  # noqa: BLE001 - the starter looks at it
            self.trouble = error

    def _strike(self, kind: str, seconds: float) -> bool:
        postgres, proxy = self._servers.postgres, getattr(self._servers, "proxy", None)
        if kind == "lost put":
            assert self._servers.lost_puts is not None
            self._servers.lost_puts.append("")  # of whatever is put next
            return True
        assert postgres and proxy
        if kind == "session killed":
            return postgres.kill_session()
        if kind == "lost reply":
            proxy.lose_replies += 1
        elif kind == "silence":
            with _set(proxy, "silent"):
                self._over.wait(seconds)
        elif kind == "paused":
            with postgres.paused():
                self._over.wait(seconds)
        else:
            postgres.stop() if kind == "restarted" else postgres.kill()
            self._over.wait(seconds)
            postgres.start()
        return True


KINDS = {
    "restarted": "postgres",
    "server killed": "postgres",
    "session killed": "postgres",
    "paused": "postgres",
    "silence": "postgres",
    "lost reply": "postgres",
    "lost put": "object",
}


@contextmanager
def _set(proxy: Proxy, name: str) -> Iterator[None]:
    setattr(proxy, name, True)
    try:
        yield
    finally:
        setattr(proxy, name, False)
