"""kill -9 of the supervisor before the N-th call that changes something outside it, at each N, and a new start.

Usually a random sample of the points; NIGHTLATCH_ROUNDS=1000 takes all of them (about 900 for the batch, 400 for the
effect).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

from nightlatch.ledger import open_for
from tests.support.batches import ids, jsonl
from tests.support.programs import nightlatch, python

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "2"))

KILLED = """
import os, signal, sys
from nightlatch.cli.main import main

at, calls, ours = int(os.environ["KILL_AT"]), 0, os.getpid()
changing = set("execute executemany write pwrite fsync fdatasync open rename replace unlink mkdir rmdir symlink "
               "link ftruncate flock connect send sendall kill fork start_new_thread".split())

def count(frame, event, called):
    global calls
    if event == "c_call" and called.__name__ in changing and os.getpid() == ours:
        calls += 1
        if calls == at:
            os.kill(ours, signal.SIGKILL)

exit_now = os._exit

def leave(code):
    if os.getpid() == ours:
        os.write(2, b"calls: %d" % calls)
    exit_now(code)

os._exit = leave
sys.setprofile(count)
main()
"""


def killed_at(point: int, store: str, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    process = python(store, KILLED, *command, env={"KILL_AT": str(point)})
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def points(store: str, command: tuple[str, ...]) -> list[int]:
    whole = killed_at(0, store, command)
    assert whole.returncode == 0, whole.stderr
    number = int(whole.stderr.rpartition("calls:")[2])
    assert number > 20, "the calls were not counted"
    return sorted(random.sample(range(1, number + 1), min(ROUNDS, number)))


def test_a_batch_killed_at_any_point_is_completed_and_publishes_nothing_twice(tmp_path: Path) -> None:
    items = jsonl(tmp_path, *ids(1, 2, 3))

    def command(out: Path) -> tuple[str, ...]:
        made = ("sh", "-c", 'echo "$1 by $$ at $(date +%N)" > page', "sh", "{id}")
        return ("batch", "b", items, "--key", "{id}", "-j", "2", "--publish", f"page={out}/{{id}}", "--", *made)

    for point in points(f"sqlite:///{tmp_path}/whole/store.db", command(tmp_path / "whole-out")):
        store, out = f"sqlite:///{tmp_path}/{point}/store.db", tmp_path / f"{point}-out"
        killed = killed_at(point, store, command(out))
        assert killed.returncode in (-signal.SIGKILL, 0), (point, killed.stderr)
        before = landed(out)
        again = nightlatch(store, *command(out))
        while again.returncode == 75:  # its warden is still ending the tree
            time.sleep(0.2)
            again = nightlatch(store, *command(out))
        assert again.returncode == 0, (point, again.stderr)
        after = landed(out)
        assert sorted(after) == ["1", "2", "3"], (point, again.stderr)
        assert {name: after[name] for name in before} == before, (point, "published twice")
        assert not open_for(store).journal.verify().breaks


def landed(out: Path) -> dict[str, str]:
    return {page.name: page.read_text() for page in out.glob("[0-9]")}


def test_an_effect_whose_supervisor_is_killed_at_any_point_is_done_once_or_in_doubt(tmp_path: Path) -> None:
    def command(acts: Path) -> tuple[str, ...]:
        return ("once", "k", "--", "sh", "-c", 'echo x >> "$0"', str(acts))

    for point in points(f"sqlite:///{tmp_path}/whole/store.db", command(tmp_path / "whole-acts")):
        store, acts = f"sqlite:///{tmp_path}/{point}/store.db", tmp_path / f"{point}-acts"
        acts.touch()
        killed = killed_at(point, store, command(acts))
        assert killed.returncode in (-signal.SIGKILL, 0), (point, killed.stderr)
        again = nightlatch(store, "once", "k", "--wait", "50s", *command(acts)[2:])
        assert again.returncode in (0, 76), (point, again.stderr)
        done = acts.read_text().count("x")
        assert done == 1 if again.returncode == 0 else done <= 1, (point, again.stderr)
