"""A batch that is killed, interrupted or out of disk: nothing is done twice, and what may have acted is in doubt."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.support.batches import DO, ids, jsonl, killed_in_flight
from tests.support.programs import NIGHTLATCH, carrying, children, environment, nightlatch, python, start, until


@pytest.mark.parametrize(("lost", "code", "done"), [("doubt", 76, "1 2 3"), ("again", 0, "1 2 2 3")])
def test_items_in_flight_when_the_batch_died_follow_lost(sqlite_url, tmp_path, acts, lost, code, done):
    items = killed_in_flight(sqlite_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--lost", lost, "--", *DO, str(acts), "{id}")
    again = nightlatch(sqlite_url, *command)
    assert (again.returncode, acts.read_text().split()) == (code, done.split()), again.stderr
    if lost == "doubt":
        assert "nightlatch resolve 2 done --batch b " in again.stderr


@pytest.mark.parametrize("victim", ["driver", "supervisor", "warden"])
def test_when_any_of_them_is_killed_no_item_works_on(sqlite_url, tmp_path, acts, victim):
    items = jsonl(tmp_path, *ids(1, 2))
    mark, script = os.urandom(8).hex(), 'echo "$1" >> "$0"; sleep 600'
    words = ("batch", "b", items, "--key", "{id}", "-j", "2", "--", "sh", "-c", script, str(acts), "{id}")
    batch = start(sqlite_url, *words, env={"MARK": mark}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: len(acts.read_text().split()) == 2)
    (warden,) = children(batch.pid)
    (driver,) = children(warden)
    os.kill({"driver": driver, "supervisor": batch.pid, "warden": warden}[victim], signal.SIGKILL)
    assert batch.wait(60) != 0
    until(lambda: not carrying(mark), timeout=60)
    again = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", "true")
    assert again.returncode == 76 and "0 done, 0 skipped, 0 failed, 2 in doubt" in again.stderr, again.stderr


@pytest.mark.parametrize(
    ("lost", "code", "said"), [("doubt", 76, "0 failed, 1 in doubt"), ("again", 1, "1 failed, 0 in")]
)
def test_an_item_that_is_killed_from_outside_may_have_acted(sqlite_url, tmp_path, lost, code, said):
    items = jsonl(tmp_path, *ids(1, 2))
    command = ("batch", "b", items, "--key", "{id}", "--lost", lost, "--")
    did = nightlatch(sqlite_url, *command, "sh", "-c", "test $0 = 1 || kill -9 $$", "{id}")
    assert did.returncode == code and f"1 done, 0 skipped, {said}" in did.stderr, did.stderr
    again = nightlatch(sqlite_url, *command, "true")
    assert again.returncode == (76 if lost == "doubt" else 0), again.stderr


@pytest.mark.parametrize(("word", "done"), [("done", "1 2 3"), ("again", "1 2 3 2")])
def test_a_person_resolves_an_item_in_doubt(sqlite_url, tmp_path, acts, word, done):
    items = killed_in_flight(sqlite_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(sqlite_url, *command).returncode == 76
    assert nightlatch(sqlite_url, "resolve", "--all", word, "--batch", "b").stdout == f"2: {word}\n"
    assert nightlatch(sqlite_url, "resolve", "--all", word, "--batch", "b").returncode == 64, (
        "nothing is in doubt any more"
    )
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert acts.read_text().split() == done.split()


def test_ctrl_c_finishes_what_is_in_flight_and_says_how_to_go_on(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2, 3))
    script = 'touch "$0.begun"; until [ -e "$0.go" ]; do sleep 0.02; done; echo "$1" >> "$0"'
    pid, terminal = pty.fork()
    if pid == 0:
        program = [*NIGHTLATCH, "batch", "b", items, "--key", "{id}", "--", "sh", "-c", script, str(acts), "{id}"]
        os.execve(program[0], program, environment(sqlite_url))
    until(Path(f"{acts}.begun").exists)
    os.write(terminal, b"\x03")
    shown = b""
    while b"finishing active items" not in shown:
        shown += os.read(terminal, 1000)
    Path(f"{acts}.go").touch()
    while b"to continue with the unfinished items" not in shown:
        shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"1 done, 0 skipped, 0 failed, 0 in doubt (interrupted)" in shown
    assert acts.read_text().split() == ["1"]


def test_ctrl_c_while_the_driver_is_being_started_waits_for_it(sqlite_url, tmp_path, acts):
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import pathlib, sys, time
if "nightlatch.runtime.child.batches.driver" in sys.orig_argv:
    pathlib.Path({str(acts)!r} + ".begun").touch()
    while not pathlib.Path({str(acts)!r} + ".go").exists():
        time.sleep(0.02)
"""
    )
    items = jsonl(tmp_path, *ids(1, 2, 3))
    pid, terminal = pty.fork()
    if pid == 0:
        program = [*NIGHTLATCH, "batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}"]
        os.execve(program[0], program, environment(sqlite_url) | {"PYTHONPATH": str(tmp_path)})
    until(Path(f"{acts}.begun").exists)
    os.write(terminal, b"\x03")
    Path(f"{acts}.go").touch()
    shown = b""
    while b"to continue with the unfinished items" not in shown:
        shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"0 done, 0 skipped, 0 failed, 0 in doubt (interrupted)" in shown and b"Traceback" not in shown
    assert not acts.read_text()


def test_an_item_in_doubt_by_its_commands_word_is_asked_again(sqlite_url, tmp_path, acts):
    """`once` inside a batch: what it leaves in doubt is a matter of once, which never repeats."""
    items = jsonl(tmp_path, *ids(1))
    inner = [*NIGHTLATCH, "once", "post/{id}", "--", "sh", "-c", 'echo "$1" >> "$0"; exit 5', str(acts), "{id}"]
    command = ("batch", "b", items, "--key", "{id}", "--", *inner)
    assert [nightlatch(sqlite_url, *command).returncode for _ in range(2)] == [76, 76]
    assert acts.read_text().split() == ["1"]
    nightlatch(sqlite_url, "resolve", "post/1", "done")
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert acts.read_text().split() == ["1"]


# What cannot be recorded is tried again for as long as the lease is held: that is a minute, unless it is made shorter.
SHORT_LEASES = """
from nightlatch.store.sql import SqlStore
SqlStore.default_ttl = 5.0
from nightlatch.cli.main import main
main()
"""


def test_a_full_disk_starts_nothing_that_is_not_recorded(sqlite_url, tmp_path, acts):
    """The ledger's file may not grow any more: what was begun before is recorded or in doubt, nothing is lost."""
    items = jsonl(tmp_path, *ids(*range(150)))
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(0), name="one.jsonl"), "--key", "{id}", "--", "true")
    place = Path(sqlite_url.removeprefix("sqlite:///")).with_name("nightlatch-ledger.db-wal")
    limit = place.stat().st_size // 1024 + 400  # less than it may have before it is moved into the database
    line = f'ulimit -f {limit}; exec "$@"'
    words = ["bash", "-c", line, "bash", sys.executable, "-c", SHORT_LEASES, *command]
    full = subprocess.run(words, env=environment(sqlite_url), capture_output=True, text=True, timeout=120)
    tried = acts.read_text().split()
    assert full.returncode != 0 and len(tried) < 149, "the limit was never reached"
    assert "disk" in full.stderr
    again = nightlatch(sqlite_url, *command, timeout=120)
    everything = acts.read_text().split()
    assert len(everything) == len(set(everything)), "nothing was done twice"
    waiting = {step.key for step in open_for(sqlite_url).items.in_doubt("b")}
    assert set(everything) | waiting == set(map(str, range(1, 150)))
    assert again.returncode == (76 if waiting else 0)


AWAY = """
from nightlatch.cli.main import main
from nightlatch.errors import StoreUnreachable
from nightlatch.runtime.supervisor.batches.batch import Checkpoints

def away(*_):
    raise StoreUnreachable("the store is away")
Checkpoints.do_steps = away
main()
"""


def test_last_items_whose_beginning_cannot_be_recorded_are_not_done(sqlite_url, tmp_path, acts):
    """As when PostgreSQL is restarted in that moment."""
    items = jsonl(tmp_path, *ids(1, 2))
    command = ("batch", "b", items, "--key", "{id}", "-j", "4", "--", *DO, str(acts), "{id}")
    stopped = python(sqlite_url, AWAY, *command)
    said = stopped.communicate()[1]
    assert stopped.returncode == 1, said
    assert "0 done, 0 skipped, 2 failed, 0 in doubt (nothing more can be recorded: the store is away)" in said
    again = nightlatch(sqlite_url, *command)
    assert (again.returncode, sorted(acts.read_text().split())) == (0, ["1", "2"]), again.stderr


def test_a_last_item_that_cannot_be_started_is_not_done(sqlite_url, tmp_path, acts):
    """The folder for its output is gone: as with a full disk, or without a free descriptor."""
    items, temporary = jsonl(tmp_path, *ids(1, 2)), tmp_path / "temporary"
    temporary.mkdir()
    script = 'echo "$1" >> "$0"; rm -rf "$TMPDIR"'
    command = ("batch", "b", items, "--key", "{id}", "--", "sh", "-c", script, str(acts), "{id}")
    stopped = nightlatch(sqlite_url, *command, env={"TMPDIR": str(temporary)})
    assert stopped.returncode == 1, stopped.stderr
    assert "1 done, 0 skipped, 1 failed, 0 in doubt (2 cannot be started" in stopped.stderr
    again = nightlatch(sqlite_url, *command, env={"TMPDIR": str(temporary / "..")})
    assert (again.returncode, acts.read_text().split()) == (0, ["1", "2"]), again.stderr


def test_on_postgresql(postgres_url, tmp_path, acts):
    items = killed_in_flight(postgres_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(postgres_url, *command).returncode == 76
    assert nightlatch(postgres_url, "resolve", "--all", "done", "--batch", "b").returncode == 0
    assert nightlatch(postgres_url, *command).returncode == 0
    assert acts.read_text().split() == ["1", "2", "3"]


def test_ctrl_c_twice_ends_what_is_in_flight_too(sqlite_url, tmp_path, acts):
    items, script = jsonl(tmp_path, *ids(1, 2)), f"touch {acts}.begun; sleep 600"
    pid, terminal = pty.fork()
    if pid == 0:
        program = [*NIGHTLATCH, "batch", "b", items, "--key", "{id}", "--", "sh", "-c", script]
        os.execve(program[0], program, environment(sqlite_url))
    until(Path(f"{acts}.begun").exists)
    shown = b""
    for said in (b"finishing active items", b"to continue with the unfinished items"):
        os.write(terminal, b"\x03")
        while said not in shown:
            shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"0 done, 0 skipped, 1 failed, 0 in doubt (interrupted)" in shown
