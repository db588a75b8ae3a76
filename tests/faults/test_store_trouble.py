"""A store that is restored, blocked, stuck, contended."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from nightlatch.store.url import connect
from tests.support import programs
from tests.support.programs import Held, alive, nightlatch, python, state, until
from tests.support.suspended_clock import Clock

TOKEN = ("--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def token(url: str) -> int:
    return int(nightlatch(url, "lock", "job", *TOKEN).stdout)


def test_tokens_do_not_repeat_after_the_store_is_restored_from_a_backup(sqlite_url, tmp_path):
    tokens = [token(sqlite_url)]
    with sqlite3.connect(file_of(sqlite_url)) as live, sqlite3.connect(tmp_path / "backup.db") as backup:
        live.backup(backup)
    tokens += [token(sqlite_url) for _ in range(3)]
    for path in file_of(sqlite_url).parent.glob("nightlatch.db-*"):
        path.unlink()
    shutil.copy(tmp_path / "backup.db", file_of(sqlite_url))
    tokens += [token(sqlite_url) for _ in range(3)]
    assert tokens == sorted(set(tokens))


KILLED_HALFWAY = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("CREATE TABLE some (page)")
connection.execute("BEGIN")
connection.executemany("INSERT INTO some VALUES (zeroblob(?))", [(4000,)] * 50)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("look", "code", "says"), [("status", 64, "there is no store"), ("migrate", 0, "made")])
def test_a_store_whose_making_was_killed_halfway_does_not_count_as_read_only(sqlite_url, look, code, says):
    """SQLite has then left a journal, which only a connection that may write can roll back."""
    path = file_of(sqlite_url)
    path.parent.mkdir()
    python(sqlite_url, KILLED_HALFWAY, str(path)).wait()
    assert path.with_name(f"{path.name}-journal").stat().st_size
    done = nightlatch(sqlite_url, look)
    assert done.returncode == code and says in done.stdout + done.stderr, done.stderr


def test_tokens_do_not_repeat_after_the_store_is_deleted(sqlite_url):
    before = token(sqlite_url)
    shutil.rmtree(file_of(sqlite_url).parent)
    assert token(sqlite_url) > before


def test_a_person_lifts_the_token_above_what_is_known_to_be_out(sqlite_url):
    out = token(sqlite_url) + 10**12
    assert int(nightlatch(sqlite_url, "lease", "raise", "job", "--above", str(out)).stdout) > out
    assert token(sqlite_url) > out


STOP_INSIDE = """
import os, signal, sys
from nightlatch.store.url import connect
store = connect()
store.read("job")
with store._db.transaction() as execute:
    execute("UPDATE lease SET version = version + 1")
    print("inside", flush=True)
    {action}
"""


def test_a_writer_stopped_inside_its_transaction_is_ended_by_who_waits(sqlite_url):
    token(sqlite_url)
    stopped = python(sqlite_url, STOP_INSIDE.format(action="os.kill(os.getpid(), signal.SIGSTOP)"))
    assert stopped.stdout and stopped.stdout.readline() == "inside\n"
    until(lambda: state(stopped.pid) == "T")
    assert token(sqlite_url) > 0
    assert stopped.wait(60) == -signal.SIGKILL


def test_a_writer_that_is_only_slow_is_left_alone(sqlite_url):
    token(sqlite_url)
    slow = python(sqlite_url, STOP_INSIDE.format(action="sys.stdin.readline()"), stdin=subprocess.PIPE)
    assert slow.stdout and slow.stdout.readline() == "inside\n"
    waiting = python(sqlite_url, "import nightlatch; print(nightlatch.lease('job', wait='60s').acquire().token)")
    time.sleep(2.5)  # longer than a waiter waits before it looks at whom it waits for
    assert alive(slow.pid)
    slow.communicate("\n")
    assert slow.returncode == 0
    assert int(waiting.communicate()[0]) > 0


class Blocked:
    """Nobody gets a turn to write while this is entered, as behind a very slow disk."""

    def __init__(self, url: str) -> None:
        self._path = f"{file_of(url)}.queue"

    def __enter__(self) -> None:
        self._file = open(self._path, "r+b")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def test_a_tree_is_frozen_while_the_lease_is_unknown_and_thawed_when_it_is_confirmed(sqlite_url, tmp_path, monkeypatch):
    clock = Clock(tmp_path)  # moved on, since between frozen and lost there is but a tenth of the TTL
    monkeypatch.setattr(programs, "NIGHTLATCH", clock.program)
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "20m")
    with Blocked(sqlite_url):
        clock.move(1000)
        until(lambda: state(held.command) == "T")
    until(lambda: state(held.command) == "S")
    assert held.process.poll() is None
    held.end()


def test_a_tree_is_ended_when_the_lease_stays_unknown(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "3s")
    with Blocked(sqlite_url):
        until(lambda: not alive(held.command))
        assert held.process.wait(60) == 123


def test_a_lease_taken_away_by_a_person_ends_the_tree(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "3s")
    assert nightlatch(sqlite_url, "lease", "release", "job", "--force").returncode == 0
    until(lambda: not alive(held.command))
    assert held.process.wait(60) == 123


CONTEND = """
import sys, time, nightlatch
name, seconds = sys.argv[1], float(sys.argv[2])
with nightlatch.lease(f"{name}/{sys.argv[3]}"):  # imported, and the store opened
    print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + seconds
tokens = []
while time.monotonic() < end:
    with nightlatch.lease(name, wait="60s") as lease:
        tokens.append(lease.token)
print(*tokens)  # printed at the end: a full pipe would hold up all but the one that is read first
"""

SECONDS = float(os.environ.get("NIGHTLATCH_SECONDS", "10")) / 2


@pytest.mark.parametrize("names", ["one name", "a name each"])
def test_eight_contenders_get_their_turns_with_rising_tokens_and_no_locked_database(sqlite_url, names):
    token(sqlite_url)
    contenders = [
        python(
            sqlite_url,
            CONTEND,
            "job" if names == "one name" else f"job{i}",
            str(SECONDS),
            str(i),
            stdin=subprocess.PIPE,
        )
        for i in range(8)
    ]
    for contender in contenders:
        assert contender.stdout and contender.stdout.readline() == "ready\n"
    for contender in contenders:
        assert contender.stdin
        contender.stdin.write("go\n")
        contender.stdin.flush()
    tokens: list[int] = []
    turns: Counter[int] = Counter()
    for index, contender in enumerate(contenders):
        out, said = contender.communicate(timeout=SECONDS + 60)
        assert contender.returncode == 0, said
        mine = [int(word) for word in out.split()]
        assert mine == sorted(set(mine)), "each sees its own tokens rise"
        turns[index] = len(mine)
        tokens += mine
    if names == "one name":
        assert len(set(tokens)) == len(tokens)
        record = connect(sqlite_url).read("job")
        assert record and record.token == max(tokens)
    assert min(turns.values()) * 4 > max(turns.values()), f"somebody starved: {turns}"
