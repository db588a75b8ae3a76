"""Gates for files, folders and objects against holders that are stopped, killed, late, or from another time."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import Forgotten, LeaseLost, StaleToken
from nightlatch.system import filelock, identity, process
from tests.support import programs
from tests.support.marks import mark
from tests.support.processes.remote_killing import kill_writers
from tests.support.processes.writer import write
from tests.support.servers import s3
from tests.support.stopped import go_on, sealed_after_a_look, until_stopped

ROOT = Path(__file__).parents[2]
PROCESSES = ROOT / "tests/support/processes"


class Target:
    """One target with its gate, whatever its kind."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place

    def gate(self) -> Any:
        kinds: dict[str, Any] = {"file": gates.File, "folder": gates.Folder, "object": gates.Object}
        return kinds[self.kind](self.place)

    def read(self) -> bytes | None:
        if self.kind == "object":
            gate = gates.Object(self.place)
            return gate.read() if gate.key() else None
        page = Path(self.place) / ("page" if self.kind == "folder" else "")
        return page.read_bytes() if page.exists() else None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as endpoint:
        yield endpoint


@pytest.fixture(params=["file", "folder", "object"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "object":
        endpoint = request.getfixturevalue("endpoint")
        return Target("object", f"s3://bucket/{identity.new_id()}?endpoint={endpoint}")
    return Target(request.param, str(tmp_path / "out"))


def writer(started: list[subprocess.Popen[str]], gate: Any, its: Mark, content: str, point: str) -> Any:
    argv = [gate.url, its.store, its.name, str(its.token), its.grant, content, point]
    started.append(
        subprocess.Popen(
            [sys.executable, str(PROCESSES / "writer.py"), *argv], text=True, stdin=subprocess.PIPE, process_group=0
        )
    )
    return started[-1]


def test_a_holder_stopped_between_check_and_write_cannot_write_after_the_seal(target, writers):
    gate = target.gate()
    gate.seal(mark(1), "old")
    write(gate, mark(1), b"before")
    old = writer(writers, gate, mark(1), "old", "inside")
    until_stopped(old.pid)
    gate.seal(mark(2), "new")
    seen = target.read()
    # In the lock of a file or folder it was ended by its recorded identity; an object's swap finds another version.
    assert go_on(old) == (73 if target.kind == "object" else -signal.SIGKILL)
    assert target.read() == seen == b"before"
    write(gate, mark(2), b"new")
    assert target.read() == b"new"


@pytest.mark.parametrize("left", ["", "4194303 1 {namespace}"], ids=["blank", "signed by one that was killed"])
def test_a_holder_stopped_before_it_could_sign_the_lock_is_found_all_the_same(left, tmp_path, writers):
    gate = gates.File(tmp_path / "out")
    gate.seal(mark(1), "old")
    lock = tmp_path / ".out.nightlatch" / "lock"
    lock.write_text(left.format(namespace=identity.pid_namespace()).ljust(80))
    old = writer(writers, gate, mark(1), "old", "unsigned")
    until_stopped(old.pid)
    gate.seal(mark(2), "new")
    assert go_on(old) == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_holder_that_is_slow_inside_the_lock_is_waited_for_and_not_ended(kind, tmp_path, writers):
    target = Target(kind, str(tmp_path / "out"))
    gate = target.gate()
    gate.seal(mark(1), "old")
    old = writer(writers, gate, mark(1), "old", "slow")
    lock = filelock.FairLock(str(tmp_path / ".out.nightlatch" / "lock"))
    programs.until(lambda: lock.holder() == (old.pid, process.start_of(old.pid)))
    sealed_after_a_look(lambda: gate.seal(mark(2), "new"), old)
    assert target.read() == b"old"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_kills_at_random_points_leave_nothing_torn_behind_or_lost(kind, tmp_path):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    killed = subprocess.run(
        [sys.executable, str(PROCESSES / "killing.py"), kind, str(tmp_path), "100", str(seed)],
        text=True, capture_output=True, timeout=170,
    )  # fmt: skip
    assert not killed.returncode, killed.stderr
    found = json.loads(killed.stdout)
    assert (found["kills"], found["torn"], found["behind"], found["lost"], found["left"]) == (100, 0, 0, 0, 0), found
    assert found["caught"] > 5, "too few were killed in the middle of a write"


def test_writers_of_an_object_are_killed_at_random_points_and_nothing_is_torn_stale_or_lost(endpoint):
    kill_writers(f"s3://bucket/{identity.new_id()}?endpoint={endpoint}", "-", 25)


def test_a_write_to_an_object_whose_reply_is_lost_has_happened_once(endpoint):
    """The client repeats the request by itself, and finds that it was overtaken: by itself."""
    with s3.lossy(endpoint) as (lossy, lost):
        gate = gates.Object(f"s3://bucket/{identity.new_id()}?endpoint={lossy}")
        gate.seal(mark(1), "me")
        before = gate._cell.read()[0].seq
        lost.append(".nightlatch")
        gate.write(mark(1), b"one")
        assert not lost
        after = gate._cell.read()[0]
        assert (gate.read(), after.seq, len(after.kept)) == (b"one", before + 1, 1)
        lost.append(".nightlatch")
        assert gate.seal(mark(2), "new") == mark(1)
        assert not lost


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk in memory if there is one: what a race shows does not depend on the disk's speed."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def test_of_two_publishers_that_race_the_higher_token_stands_every_time(memory):
    raced = subprocess.run(
        [sys.executable, str(PROCESSES / "racing.py"), str(memory / "out"), "1000"],
        text=True, capture_output=True, timeout=170,
    )  # fmt: skip
    assert not raced.returncode, raced.stderr
    found = json.loads(raced.stdout)
    assert (found["rounds"], found["lower_stood"], found["higher_refused"]) == (1000, 0, 0)
    assert 0 < found["refused"] < 1000, "the two did not meet in both orders"


HOLD = """
import os, signal, sys, nightlatch
from nightlatch import gates
from nightlatch.errors import StaleToken
out = gates.File(sys.argv[1])
lease = nightlatch.lease("job", ttl="60s").acquire()
lease.use(out)
mark = lease.mark
lease.store.renew("job", lease.grant, 0.5)  # its last one: it is stopped before the next
os.kill(os.getpid(), signal.SIGSTOP)
try:
    out.write(mark, b"old")  # its last check of the lease was before the stop
except StaleToken:
    os._exit(73)
os._exit(0)
"""


@pytest.mark.parametrize("by", ["lease", "lock", "lease acquire"])
def test_a_gate_that_the_new_holder_does_not_know_of_is_sealed_for_it(by, tmp_path, sqlite_url, writers):
    """It was registered under the lease, so every later holder seals it before any work."""
    path = tmp_path / "out"
    old = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], env=programs.environment(sqlite_url), text=True, process_group=0
    )  # fmt: skip
    writers.append(old)
    until_stopped(old.pid)
    if by == "lease":
        with nightlatch.lease("job", wait="50s", store=sqlite_url):
            assert go_on(old) == 73
    else:
        words = (
            ["lock", "job", "--wait", "50s", "--", "true"] if by == "lock" else [*by.split(), "job", "--wait", "50s"]
        )
        done = programs.nightlatch(sqlite_url, *words)
        assert not done.returncode, done.stderr
        assert go_on(old) == 73
    assert not path.exists()


def test_with_no_seal_an_acknowledged_update_is_lost_and_with_it_the_late_one_is_refused(target):
    """Both add 1 to a number. The new holder reads, the old one writes, the new one writes what it has read + 1."""
    gate, old_handle = target.gate(), target.gate()

    def trial(old: Mark, new: Mark, sealing: bool) -> tuple[int, int]:
        """(updates that were acknowledged, what the number has become)"""
        write(gate, old, b"0")
        acknowledged = 0
        if sealing:
            gate.seal(new, "new")
        read = int(target.read() or b"")
        try:
            write(old_handle, old, b"1")
            acknowledged += 1
        except StaleToken:
            pass
        write(gate, new, str(read + 1).encode())
        return acknowledged + 1, int(target.read() or b"")

    assert trial(mark(1), mark(2), sealing=False) == (2, 1), "two were acknowledged, one is there"
    assert trial(mark(3), mark(4), sealing=True) == (1, 1)


def test_a_token_is_raised_above_an_adopted_mark_and_every_gate_is_sealed_again(tmp_path, sqlite_url):
    other, adopted = gates.File(tmp_path / "other"), gates.File(tmp_path / "adopted")
    store = nightlatch.connect(sqlite_url)
    ahead = mark(int(time.time() * 1000) + 10**9, store="another")  # as if that one's clock had been wrong
    adopted.seal(ahead, "a holder of another store")
    adopted.adopt(store.id)
    with nightlatch.lease("job", store=store, gates=[other, adopted]) as lease:
        assert lease.token > ahead.token
        for gate in (other, adopted):
            assert gate.standing()["job"].mark == lease.mark, "also the one that was sealed before the raise"
            with pytest.raises(StaleToken):
                gate.write(ahead, b"another's")
            gate.write(lease, b"mine")


def test_a_holder_that_is_overtaken_while_it_seals_has_lost_its_lease(tmp_path, sqlite_url):
    """It finds a newer mark there; that does not mean that the store has forgotten anything."""

    class Slow(gates.File):
        def seal(self, *given):
            store.evict("job")
            with nightlatch.lease("job", store=sqlite_url, gates=[gates.File(self.path)]):
                return super().seal(*given)

    store = nightlatch.connect(sqlite_url)
    with pytest.raises(LeaseLost):
        nightlatch.lease("job", store=store, gates=[Slow(tmp_path / "out")]).acquire()


def test_a_token_is_raised_before_the_work_and_never_in_the_middle_of_it(tmp_path, sqlite_url):
    """A holder that a restored store brought back to life must not overtake the one that overtook it."""
    late = gates.File(tmp_path / "late")
    with nightlatch.lease("job", store=sqlite_url) as lease:
        ahead = mark(lease.token + 10**9, store=lease.store.id)
        late.seal(ahead, "a grant the store has forgotten")
        before = lease.token
        with pytest.raises(StaleToken, match="nightlatch lease raise job"):
            lease.use(late)
        assert lease.token == before
    with pytest.raises(Forgotten):
        nightlatch.lease("job", store=sqlite_url, gates=[late]).acquire()
    nightlatch.connect(sqlite_url).raise_token("job", ahead.token)
    with nightlatch.lease("job", store=sqlite_url, gates=[late]) as lease:
        assert lease.token > ahead.token
