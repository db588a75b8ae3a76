from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git_remote import Remote
from tests.support.git_site import Site
from tests.support.servers.counting import Counting
from tests.support.servers.git import git_http, git_repository


@pytest.fixture(scope="module")
def dice() -> random.Random:
    seed = int(os.environ.get("NIGHTLATCH_SEED", time.time_ns() % 10**6))
    print(f"NIGHTLATCH_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def server() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()


@pytest.fixture
def writers() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for writer in started:
        if writer.poll() is None:
            writer.kill()
        writer.communicate()


@pytest.fixture(params=["file", "http"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "file":
        yield Site(tmp_path, f"file://{tmp_path}/site.git", None)
    else:
        with git_http(tmp_path) as server:
            yield Site(tmp_path, server.url("site.git"), server)


@pytest.fixture
def file_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Remote(git_repository(tmp_path / "store.git"), None)


@pytest.fixture
def http_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with git_http(tmp_path) as server:
        yield Remote(git_repository(tmp_path / "store.git"), server)


@pytest.fixture(params=["file_remote", "http_remote"])
def remote(request: pytest.FixtureRequest) -> Remote:
    found: Remote = request.getfixturevalue(request.param)
    return found
