"""The faults that every gate has to stand, on one target of each kind; docs/guarantees.md has the whole table.

What depends on how a gate works (stopped between check and write, killed at random points, lost replies) is beside
each kind: test_gates_file.py, test_gates_sql.py, test_git_gate.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import Forgotten, OtherStore, StaleToken
from nightlatch.system import identity
from tests.support import programs
from tests.support.marks import mark
from tests.support.programs import faketime
from tests.support.servers import s3
from tests.support.servers.git import git_http, git_repository
from tests.support.stopped import go_on, until_stopped
from tests.support.targets import KINDS, Target, write

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as endpoint:
        yield endpoint


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path, state_home: Path) -> Iterator[Target]:
    kind = request.param
    if kind in ("sqlite", "postgres"):
        yield Target(kind, request.getfixturevalue(f"{kind}_target").url)
    elif kind == "object":
        yield Target(kind, f"s3://bucket/{identity.new_id()}?endpoint={request.getfixturevalue('endpoint')}")
    elif kind == "git":
        place = git_repository(tmp_path / "site.git")
        yield Target(kind, f"git+file://{place}#main", place)
    elif kind == "git-http":
        place = git_repository(tmp_path / "site.git")
        with git_http(tmp_path) as server:
            yield Target(kind, f"git+{server.url('site.git')}#main", place)
    else:
        place = tmp_path / "out"
        yield Target(kind, (gates.File(place) if kind == "file" else gates.Folder(place)).url, place)


@pytest.fixture
def holders(sqlite_url: str) -> Iterator[Any]:
    """Starts holders, processes of their own; none is left behind."""
    started: list[subprocess.Popen[str]] = []

    def start(target: Target, content: str, when: str = "at once", **env: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "tests.support.processes.holder", target.url, content, when]
        started.append(
            subprocess.Popen(
                argv,
                env=programs.environment(sqlite_url, **env),
                text=True,
                cwd=ROOT,
                stdout=-1,
                stderr=-1,
                process_group=0,
            )
        )
        return started[-1]

    yield start
    for each in started:
        if each.poll() is None:
            each.kill()
        each.communicate()


def refused(target: Target, stale: Mark) -> None:
    before = target.read()
    with pytest.raises(StaleToken):
        write(target.gate(), stale, "stale")
    assert target.read() == before


def test_a_holder_that_is_stale_from_the_start_is_refused(target: Target) -> None:
    target.gate().seal(mark(2), "new")
    refused(target, mark(1))
    assert target.read() is None
    assert [refusal.offered for refusal in target.gate().refusals()] == [1]


def test_a_holder_stopped_before_its_write_is_refused_after_the_takeover(
    target: Target, holders: Any, sqlite_url: str
) -> None:
    old = holders(target, "old", "stopped")
    until_stopped(old.pid)
    with nightlatch.lease("job", wait="60s", store=sqlite_url, gates=[gate := target.gate()]) as lease:
        write(gate, lease, "new")
        assert go_on(old) == 73, old.stderr.read()
    assert target.read() == "new"
    assert len(target.gate().refusals()) == 1


def test_a_gate_that_the_new_holder_has_not_touched_refuses_the_old_one(
    target: Target, holders: Any, sqlite_url: str
) -> None:
    """It was registered under the lease, so every later holder seals it before any work."""
    old = holders(target, "old", "stopped")
    until_stopped(old.pid)
    with nightlatch.lease("job", wait="60s", store=sqlite_url):
        assert go_on(old) == 73, old.stderr.read()
    assert target.read() is None


def test_a_holder_whose_wall_clock_is_off_neither_passes_nor_blocks(target: Target, holders: Any) -> None:
    marks = []
    for number, offset in enumerate(("", "+1h", "", "-1h")):
        one = holders(target, str(number), **(faketime(offset) if offset else {}))
        said, complaints = one.communicate(timeout=60)
        assert one.returncode == 0, complaints
        assert target.read() == str(number)
        token, grant, store = said.split()
        marks.append(mark(int(token), grant=grant, store=store))
    tokens = [its.token for its in marks]
    assert tokens == sorted(set(tokens))
    assert tokens[1] - tokens[0] > 3_000_000, "the clock was not another one"
    for stale in marks[:-1]:
        refused(target, stale)


@pytest.mark.parametrize("ahead", [0, 10**9], ids=["a sane clock", "a clock that was wrong"])
def test_a_store_restored_from_before_a_grant_stops_at_the_mark_until_a_person_raises_the_token(
    target: Target, tmp_path: Path, sqlite_url: str, ahead: int
) -> None:
    store = nightlatch.connect(sqlite_url)
    with nightlatch.lease("job", gates=[target.gate()], store=store):
        pass
    store.close()
    shutil.copytree(Path(sqlite_url.removeprefix("sqlite:///")).parent, tmp_path / "backup")
    if ahead:
        store.raise_token("job", int(time.time() * 1000) + ahead)
    with nightlatch.lease("job", store=store) as lease:
        forgotten = lease.mark
    store.close()
    restored = nightlatch.connect(sqlite_url.replace("state", "backup"))
    for _ in range(3):
        with pytest.raises(Forgotten, match=f"lease raise job --above {forgotten.token}"):
            nightlatch.lease("job", store=restored).acquire()
        # The evidence stays, also for a later holder with a higher token.
        assert target.gate().standing()["job"].mark == forgotten
    restored.raise_token("job", forgotten.token)
    with nightlatch.lease("job", store=restored) as lease:
        assert lease.token > forgotten.token
        write(target.gate(), lease, "restored")
        refused(target, forgotten)
    assert target.read() == "restored"


def test_another_store_is_refused_until_the_gate_is_adopted(target: Target, tmp_path: Path) -> None:
    mine, theirs = f"sqlite:///{tmp_path}/mine.db", f"sqlite:///{tmp_path}/theirs.db"
    with nightlatch.lease("job", gates=[gate := target.gate()], store=mine) as lease:
        write(gate, lease, "mine")
        stranger = programs.nightlatch(theirs, "lock", "job", "--gate", target.url, "--", "true")
        assert stranger.returncode == OtherStore.exit_code == 73
        assert "gate adopt" in stranger.stderr
        adopted = programs.nightlatch(theirs, "gate", "adopt", target.url)
        assert adopted.returncode == 0, adopted.stderr
        with pytest.raises(OtherStore):
            write(gate, lease, "mine again")
    for _ in range(2):
        with nightlatch.lease("job", gates=[gate := target.gate()], store=theirs) as lease:
            write(gate, lease, "theirs")
    assert target.read() == "theirs"
