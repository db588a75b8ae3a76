"""Supervised runs under fire: bounded from outside, followed at once, never recorded over.

NIGHTLATCH_ROUNDS=100 NIGHTLATCH_KEYS=40 makes it a long one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from tests.support.programs import (
    NIGHTLATCH,
    TOOL,
    alive,
    carrying,
    children,
    kill_all,
    nightlatch,
    python,
    start,
    until,
)
from tests.support.servers.git import git_repository

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "12"))

RUNAWAY = """
trap '' TERM
sleep 600 &
setsid sh -c 'trap "" TERM; sleep 600 & sleep 600' &
(setsid sleep 600 &)
wait
"""


@pytest.mark.timeout(600)
def test_a_runaway_tree_is_gone_when_its_time_is_over(sqlite_url):
    def once(number: int) -> tuple[int, set[int]]:
        mark = f"RUNAWAY-{os.urandom(8).hex()}"
        bounds = ("--timeout", "300ms", "--grace", "200ms")
        done = nightlatch(sqlite_url, "run", f"job{number}", *bounds, "--", "sh", "-c", RUNAWAY, env={"MARK": mark})
        return done.returncode, carrying(mark)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(once, range(ROUNDS))) == [(124, set())] * ROUNDS


HANG = """
import socket, subprocess
server = socket.create_server(("127.0.0.1", 0))
subprocess.Popen(["sleep", "600"], start_new_session=True)
socket.create_connection(server.getsockname()).recv(1)
"""


def test_a_script_that_hangs_in_a_socket_read_ends_by_its_timeout(sqlite_url):
    mark = f"HANG-{os.urandom(8).hex()}"
    command = ("--", sys.executable, "-c", HANG)
    done = nightlatch(sqlite_url, "run", "job", "--timeout", "2s", *command, env={"MARK": mark})
    assert done.returncode == 124
    assert "status=timed-out" in done.stderr
    assert not carrying(mark)


class Running:
    """A `nightlatch run` in the middle of its command."""

    def __init__(self, store: str, folder: Path, *options: str, key: str = "k") -> None:
        self.said = folder / f"said-{os.urandom(4).hex()}"
        script = 'echo "$$ $NIGHTLATCH_RUN" > "$1.part"; mv "$1.part" "$1"; exec sleep 600'
        self.verdict = folder / f"{self.said.name}.json"
        words = ("run", "job", "--key", key, "--verdict", str(self.verdict), *options)
        self.process = start(store, *words, "--", "sh", "-c", script, "sh", str(self.said), stdout=None, stderr=None)
        until(lambda: self.said.exists() or self.process.poll() is not None)
        pid, self.run = self.said.read_text().split()
        self.command = int(pid)


def test_a_stopped_supervisor_is_overtaken_and_records_nothing_over_the_next_one(sqlite_url, tmp_path):
    first = Running(sqlite_url, tmp_path, "--ttl", "3s", "--lost", "again")
    os.kill(first.process.pid, signal.SIGSTOP)
    second = nightlatch(sqlite_url, "run", "job", "--key", "k", "--lost", "again", "--wait", "50s", "--", "true")
    assert second.returncode == 0, second.stderr
    assert not alive(first.command)
    os.kill(first.process.pid, signal.SIGCONT)
    assert first.process.wait(60) == 123
    run = open_for(sqlite_url).run(first.run)
    assert run and (run.status, run.attempt) == (statuses.SUCCEEDED, 2)
    attempts = open_for(sqlite_url).attempts(first.run)
    assert [attempt.status for attempt in attempts] == [statuses.LOST, statuses.SUCCEEDED]
    refused = nightlatch(sqlite_url, "show", first.run).stdout.partition("\nrefused\n")[2]
    assert "refused: verdict lost, by attempt 1 with token " in refused, "a person sees that it came too late"


def test_a_holder_that_died_leaves_a_plain_command_in_doubt(sqlite_url, tmp_path):
    first = Running(sqlite_url, tmp_path)
    (warden,) = children(first.process.pid)
    os.kill(warden, signal.SIGKILL)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    again = nightlatch(sqlite_url, "run", "job", "--key", "k", "--wait", "50s", "--", "true")
    assert again.returncode == 76, again.stderr
    assert not alive(first.command)
    third = nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "true")
    assert third.returncode == 76
    assert f"nightlatch resolve {first.run}" in third.stderr


def test_a_run_is_cancelled_through_the_ledger(sqlite_url, tmp_path):
    first = Running(sqlite_url, tmp_path)
    open_for(sqlite_url).decisions.request_cancel(first.run, "ann@laptop")
    assert first.process.wait(60) == 120
    report = json.loads(first.verdict.read_text())
    assert (report["status"], report["reason"]) == ("cancelled", "cancelled by ann@laptop")


# What is spent is acknowledged when `spend` returns.
WORK = f"sleep $1; {TOOL} spend calls=1 && echo x >> acknowledged; echo x >> ran"


@pytest.mark.timeout(300 + 10 * ROUNDS)
def test_killed_anywhere_a_run_ends_and_nothing_acknowledged_is_lost(sqlite_url, tmp_path, dice):
    """Supervisor, warden, both, or all there is, is killed at random points. The next start with the same key ends the
    run: succeeded, or in doubt if that is asked for and the first one may have acted."""
    ends: dict[str, int] = {}
    for number in range(ROUNDS):
        key, folder, mark = f"k{number}", tmp_path / f"k{number}", f"KILLED-{os.urandom(8).hex()}"
        folder.mkdir()
        lost = dice.choice(["again", "doubt"])
        words = ("run", "job", "--key", key, "--lost", lost, "--wait", "50s", "--cwd", str(folder))
        command = ("--", "sh", "-c", WORK, "sh", f"0.0{dice.randrange(10)}")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        first = start(sqlite_url, *words, *command, env={"MARK": mark}, **quiet)
        time.sleep(dice.random() * 0.4)
        if dice.random() < 0.4:
            kill_all(mark)
        else:
            both = [first.pid, *children(first.pid)]
            for pid in dice.sample(both, dice.randint(1, len(both))):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        first.wait()
        second = nightlatch(sqlite_url, *words, *command)
        run = open_for(sqlite_url).find("job", key)
        assert run
        ends[run.status] = ends.get(run.status, 0) + 1
        if run.status == statuses.SUCCEEDED:
            assert second.returncode == 0, second.stderr
            assert (folder / "ran").exists(), "it is reported as done, and was not"
        else:
            assert (run.status, second.returncode, lost) == (statuses.IN_DOUBT, 76, "doubt"), second.stderr
        if first.returncode == 0:
            assert "status=skipped" in second.stderr, "what was reported as done is done again"
        acknowledged = folder / "acknowledged"
        assert run.usage.calls >= (acknowledged.read_text().count("x") if acknowledged.exists() else 0)
        assert not carrying(mark)
    assert not open_for(sqlite_url).journal.verify().breaks
    print(ends)


KEYS = int(os.environ.get("NIGHTLATCH_KEYS", "6"))
GIT_KEYS = int(os.environ.get("NIGHTLATCH_GIT_KEYS", "4"))

# One of two machines: both come to each key at the same moment.
MACHINE = """
import os, subprocess, sys, time
program, url, folder, keys, me, other = sys.argv[1].split("|"), *sys.argv[2:]
for number in range(int(keys)):
    open(f"{folder}/{me}-{number}", "w").close()
    while not os.path.exists(f"{folder}/{other}-{number}"):
        time.sleep(0.001)
    command = ["sh", "-c", f"echo x >> {folder}/k{number}"]
    words = ["--store", url, "run", "job", "--key", f"k{number}", "--wait", "60s", "--", *command]
    code = subprocess.run([*program, *words], stderr=subprocess.DEVNULL).returncode
    assert code == 0, (number, code)
"""

# The command line on a machine with an id of its own.
ELSEWHERE = """
import os
from nightlatch.system import identity
identity._known["machine"] = identity._known["boot"] = os.environ["MACHINE"]
from nightlatch.cli.main import main
main()
"""


@pytest.mark.timeout(300 + 6 * KEYS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "git"])
def test_two_machines_with_the_same_keys_run_each_command_once(sqlite_url, tmp_path, kind, request):
    stores = {
        "sqlite": lambda: sqlite_url,
        "postgres": lambda: request.getfixturevalue("postgres_url"),
        "git": lambda: f"git+file://{git_repository(tmp_path / 'remote.git')}",
    }
    store, keys = stores[kind](), KEYS if kind != "git" else GIT_KEYS
    program = NIGHTLATCH if kind == "sqlite" else [sys.executable, "-c", ELSEWHERE]
    # Each has a home of its own, and where the store serves several machines an id: nothing but it tells them of
    # each other.
    machines = [
        python(
            store, MACHINE, "|".join(program), store, str(tmp_path), str(keys), me, other,
            env={"HOME": str(tmp_path / me), "XDG_STATE_HOME": str(tmp_path / me / "state"), "MACHINE": me * 8},
        )
        for me, other in (("one", "two"), ("two", "one"))
    ]  # fmt: skip
    for machine in machines:
        _, said = machine.communicate(timeout=200 + 6 * keys)
        assert machine.returncode == 0, said
    assert [(tmp_path / f"k{number}").read_text() for number in range(keys)] == ["x\n"] * keys
