"""A git remote keeps every promise of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch import connect
from nightlatch.core.protocols import Store
from nightlatch.testing import StoreConformance, stores
from tests.support.servers.git import git_http, git_repository


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    for name in ("file.git", "http.git"):
        git_repository(folder / name)
    return folder


@pytest.fixture(scope="module")
def http(root: Path) -> Iterator[str]:
    with git_http(root) as server:
        yield server.url("http.git")


class _Git(stores.StoreCase):
    has_clock = False
    ttl = 1.0
    factor = 4.0  # a verb is a push
    racers = 3
    rounds = 2
    where = ""

    @pytest.fixture(autouse=True)
    def state(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
        # With a TTL of a second there is little time for a git that starts on a busy machine.
        monkeypatch.setattr("nightlatch.store.git.store._MIN_TIMEOUT", 20.0)

    def open(self) -> Store:
        return connect(self.where)


class TestGitOverFile(_Git, StoreConformance):
    @pytest.fixture(autouse=True)
    def remote(self, root: Path) -> None:
        self.where = f"git+file://{root}/file.git"


class TestGitOverHttp(_Git, stores.Races, stores.DoneKeys):
    """The topics in which the way to the server could make a difference."""

    @pytest.fixture(autouse=True)
    def remote(self, http: str) -> None:
        self.where = f"git+{http}"
