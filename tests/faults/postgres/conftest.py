from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nightlatch
from nightlatch.core.protocols import Store
from nightlatch.system import identity
from tests.support.programs import start
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres_proxy import Proxy


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that is stopped and started: not the one of the other tests."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def schema(state_home: Path) -> str:
    return f"faults_{identity.new_id()[:12]}"


@pytest.fixture
def url(server: PostgresServer, schema: str) -> str:
    return server.url(schema)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = nightlatch.connect(url)
    yield store
    store.close()


@pytest.fixture
def through(proxy: Proxy, server: PostgresServer, schema: str) -> Iterator[Store]:
    """The same store, through the proxy."""
    store = nightlatch.connect(server.url(schema, port=proxy.port) + "&sslmode=disable&gssencmode=disable")
    assert store.id
    yield store
    store.close()


@pytest.fixture
def lock(url: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `nightlatch lock …`; whatever a failed test leaves behind is ended."""
    started: list[subprocess.Popen[str]] = []

    def lock(*words: str) -> subprocess.Popen[str]:
        started.append(start(url, "lock", *words))
        return started[-1]

    yield lock
    for program in started:
        program.kill()
        program.communicate()
