"""A gate that cannot be sealed: nothing is begun, it is tried again, and in the end a message says what to type."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.system import identity
from tests.support.programs import children, environment, nightlatch, start, until

# The same command line, less patient; and one that is patient enough for somebody to mend the gate.
HASTY = "from nightlatch.runtime.supervisor.leases import unsealed; unsealed.PAUSE = {}\nfrom nightlatch.cli.main import main; main()"


def hasty(store: str, *words: str, pause: float = 0.01) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", HASTY.format(pause), *words]
    return subprocess.run(program, env=environment(store), text=True, capture_output=True, timeout=60)


class Place:
    def __init__(self, folder: Path, store: str) -> None:
        self.store, self.target, self.ran = store, folder / "out" / "page", folder / "ran"
        self.work = f"echo $NIGHTLATCH_ATTEMPT >> {self.ran}; echo page > page"
        assert nightlatch(store, *self.words("first")).returncode == 0

    def words(self, key: str, work: str = "") -> list[str]:
        publish = ["--workspace", "scratch", "--publish", f"page={self.target}"]
        return ["run", "job", "--key", key, *publish, "--", "sh", "-c", work or self.work]

    def run(self, key: str, pause: float = 0.01) -> subprocess.CompletedProcess[str]:
        return hasty(self.store, *self.words(key), pause=pause)

    def block(self) -> None:
        """The folder of the page is no longer a folder."""
        self.target.parent.rename(self.target.parent.with_suffix(".away"))
        self.target.parent.touch()

    def mend(self) -> None:
        self.target.parent.unlink()
        self.target.parent.with_suffix(".away").rename(self.target.parent)


@pytest.fixture
def place(tmp_path, sqlite_url):
    return Place(tmp_path, sqlite_url)


def test_after_some_tries_it_waits_for_a_person_who_sees_the_gate_and_what_to_type(place):
    place.block()
    done = place.run("k")
    assert done.returncode == 76, done.stderr
    assert done.stderr.count("not started yet (try") == 4 and "status=needs-attention" in done.stderr
    assert place.ran.read_text() == "1\n", "only the first key's"
    run = open_for(place.store).find("job", "k")
    assert run and (run.status, run.attempt) == (statuses.NEEDS_ATTENTION, 0)
    bare = nightlatch(place.store, env={"COLUMNS": "300"}).stdout
    (row,) = [line for line in bare.splitlines() if "needs attention" in line]
    assert str(place.target) in row and row.endswith(f"  retry {run.id[:4]}")
    shown = nightlatch(place.store, "show", run.id).stdout
    for words in (str(place.target), "nightlatch gate forget file://"):
        assert words in shown
    assert shown.endswith(f"next\n  nightlatch retry {run.id}\n  nightlatch resolve {run.id}\n")
    again = place.run("k")
    assert again.returncode == 76 and f"nightlatch retry {run.id}" in again.stderr, "it is not tried all night"
    place.mend()
    assert nightlatch(place.store, "retry", run.id).returncode == 0
    assert place.run("k").returncode == 0
    assert place.ran.read_text() == "1\n1\n"


def test_between_two_tries_the_lease_is_free_and_when_the_gate_is_mended_the_work_is_done(place):
    place.block()
    program = [sys.executable, "-c", HASTY.format(1), *place.words("k")]
    waiting = subprocess.Popen(program, env=environment(place.store), text=True, stderr=subprocess.PIPE)
    assert waiting.stderr
    while "try 1 of" not in waiting.stderr.readline():
        pass
    until(lambda: '"held": false' in nightlatch(place.store, "lease", "show", "job", "--json").stdout)
    place.mend()
    assert "status=succeeded" in waiting.communicate(timeout=60)[1]


def test_a_gate_of_another_store_is_not_tried_again(place, tmp_path):
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    done = nightlatch(elsewhere, *place.words("k"))
    assert done.returncode == 76 and "try 1 of" not in done.stderr, done.stderr
    assert "gate adopt" in nightlatch(elsewhere, env={"COLUMNS": "600"}).stdout


def test_an_attempt_that_was_left_behind_is_shown_as_lapsed_with_what_stands_in_the_way(place, tmp_path):
    said = tmp_path / "said"
    first = start(place.store, *place.words("k", f"touch {said}; sleep 600"))
    until(said.exists)
    for pid in (*children(first.pid), first.pid):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    place.block()
    assert place.run("k").returncode == 69
    run = open_for(place.store).find("job", "k")
    assert run
    report = json.loads(nightlatch(place.store, "show", run.id, "--json").stdout)
    assert report["status"] == "lapsed" and any(entry["kind"] == "unsealed" for entry in report["timeline"])
    place.mend()
    assert place.run("k").returncode == 0


def test_a_mistyped_target_is_not_in_the_way_of_the_right_one(any_store, tmp_path):
    (tmp_path / "file").touch()
    wrong, right = tmp_path / "file" / "page", tmp_path / "www" / "page"

    def run(key, *targets):
        published = [word for target in targets for word in ("--publish", f"page={target}")]
        words = ["run", "job", "--key", key, "--workspace", "scratch", *published, "--", "sh", "-c", "echo $$ > page"]
        return hasty(any_store, *words)

    mistyped = run("k", right, wrong)
    assert mistyped.returncode == 76 and not right.exists()
    assert f"{wrong} could not be sealed" in mistyped.stderr and "is it the right target?" in mistyped.stderr
    assert "gate forget" not in mistyped.stderr, "there is nothing to forget"
    assert run("another", right).returncode == 0
    waits = open_for(any_store).find("job", "k")
    assert waits and nightlatch(any_store, "retry", waits.id).returncode == 0
    assert run("k", right).returncode == 0 and right.exists()
    # A target that was in use is remembered even if nobody names it: an old holder may still want to write there.
    right.parent.rename(tmp_path / "away")
    right.parent.touch()
    blocked = run("l", wrong)
    assert blocked.returncode == 76 and f"nightlatch gate forget file://{identity.machine()}{right}" in blocked.stderr
    assert run("m", tmp_path / "elsewhere").returncode == 76


def test_a_restored_store_stops_at_a_gate_that_knows_more_until_a_person_raises_the_token(place, tmp_path):
    file = Path(place.store.removeprefix("sqlite:///"))
    copytree(file.parent, tmp_path / "backup")
    assert nightlatch(place.store, *place.words("second")).returncode == 0
    rmtree(file.parent)
    copytree(tmp_path / "backup", file.parent)
    for key in ("second", "third"):
        stopped = place.run(key)
        assert stopped.returncode == 76 and "not started yet" not in stopped.stderr, "no waiting helps"
    assert place.ran.read_text() == "1\n1\n", "the key that the store has forgotten is not done again"
    shown = nightlatch(place.store, env={"COLUMNS": "900"}).stdout
    above = shown.partition("nightlatch lease raise job --above ")[2].split(",")[0]
    assert nightlatch(place.store, "lease", "raise", "job", "--above", above).returncode == 0
    run = open_for(place.store).find("job", "third")
    assert run and nightlatch(place.store, "retry", run.id).returncode == 0
    for _ in range(2):
        assert place.run("third").returncode == 0
