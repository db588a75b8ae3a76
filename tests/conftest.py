from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch.core import advice
from nightlatch.system import identity
from tests.support import journal_kinds  # noqa: F401  declared for all tests
from tests.support.servers.postgres import PostgresServer
from tests.support.sql_target import Target

# These signals may be ignored where the tests are started (nohup, `make test &`), and every process would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _signum in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_signum) == signal.SIG_IGN:
        signal.signal(_signum, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _advice_names_no_store() -> None:
    """A test that called a command's `main` has left its --store."""
    advice.choose(None)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/nightlatch.db"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests that do not restart it; each store has its own schema."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the local files of stores that are not files, outside this user's home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    return tmp_path / "state-home"


@pytest.fixture
def postgres_url(postgres: PostgresServer, state_home: Path, request: pytest.FixtureRequest) -> str:
    """A store that no other test has."""
    postgres.must_live()
    return postgres.url(f"test_{abs(hash(request.node.nodeid)):x}")


@pytest.fixture
def postgres_target(postgres: PostgresServer) -> Target:
    """In a schema that is never dropped: that would wait for sessions that a failed test left stopped."""
    postgres.must_live()
    name = f"site_{identity.new_id()}"
    postgres.psql(f"CREATE SCHEMA {name}")
    query = f"sslmode=disable&options=-csearch_path%3D{name}"
    return Target(f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres?{query}#{name}")


@pytest.fixture
def sqlite_target(tmp_path: Path) -> Target:
    return Target(f"sqlite:///{tmp_path}/site.db#articles")


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest) -> str:
    """A store on each database that also keeps the ledger."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def git_url(tmp_path: Path, state_home: Path) -> str:
    """A store in a new repository."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "store.git"], check=True)
    return f"git+{tmp_path}/store.git"


@pytest.fixture(params=["sqlite", "postgres", "git"])
def any_store(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))
