"""A run that is killed around its publish, a newer one that publishes there, and the first one started again.

What is at the target was written by the newer one: it must not be replaced by what the first one left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.core import statuses
from nightlatch.ledger import open_for
from tests.support.clones import begun, git
from tests.support.programs import TOOL, environment, nightlatch, until
from tests.support.servers import s3
from tests.support.servers.git import git_repository

# The command line, killed with -9 right before or right after the write to its target.
DYING = """
import os, sys
from nightlatch.cli.main import main
from nightlatch.gates import git_push
from nightlatch.runtime.supervisor.publishing import replace_target, requested_targets

moment = sys.argv.pop(1)

def dying(land):
    def land_and_die(*words):
        if moment == "after":
            land(*words)
        os.kill(os.getpid(), 9)
    return land_and_die

for kind in (replace_target.ReplaceTarget, requested_targets.RequestedReplace):
    kind.land = dying(kind.land)
git_push.Push.run = dying(git_push.Push.run)
main()
"""


class Target:
    """One place that runs publish to, and what it holds."""

    def __init__(self, kind: str, folder: Path, endpoint: str) -> None:
        self.kind, self.folder = kind, folder
        self.path = folder / "out"
        self.url = f"s3://bucket/{os.urandom(4).hex()}?endpoint={endpoint}" if kind == "object" else str(self.path)
        if kind == "git":
            self.remote = git_repository(folder / "remote.git")
            begun(self.remote, folder / "first")

    def options(self) -> list[str]:
        if self.kind == "git":
            return ["--workspace", f"git:{self.remote}#main", "--publish", "git"]
        return ["--workspace", "scratch", "--publish", f"made{'/' * (self.kind == 'folder')}={self.url}"]

    def work(self) -> str:
        made = {"folder": "mkdir made; echo $line > made/page", "git": "echo $line > page; git add page"}
        return f'line="$NIGHTLATCH_KEY $NIGHTLATCH_ATTEMPT"; {made.get(self.kind, "echo $line > made")}'

    def holds(self) -> str:
        """Whose work it is: key and attempt."""
        if self.kind == "git":
            return git(self.remote, "show", "main:page").strip()
        if self.kind == "object":
            return gates.Object(self.url).read().decode().strip()
        return (self.path / "page" if self.kind == "folder" else self.path).read_text().strip()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as url:
        yield url


@pytest.fixture(params=["file", "folder", "object", "git"])
def target(request, tmp_path: Path, endpoint: str, state_home: Path) -> Target:
    return Target(request.param, tmp_path, endpoint)


def words(target: Target, key: str) -> list[str]:
    more = ["--key", key, "--wait", "50s", "--lost", "again"]
    return ["run", "job", *more, *target.options(), "--", "sh", "-ec", target.work()]


def die(store: str, moment: str, *words: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DYING, moment, *words], env=environment(store), cwd=cwd, capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def again(store: str, *words: str, cwd: Path) -> str:
    def over() -> subprocess.CompletedProcess[str] | None:
        """What the killed one had started may still be ending."""
        done = nightlatch(store, *words, cwd=cwd)
        return None if done.returncode == 75 else done

    done = until(over)
    assert done
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_result_that_landed_is_not_published_again_over_a_newer_one(target, sqlite_url, tmp_path):
    die(sqlite_url, "after", *words(target, "a"), cwd=tmp_path)
    assert target.holds() == "a 1"
    again(sqlite_url, *words(target, "b"), cwd=tmp_path)
    said = again(sqlite_url, *words(target, "a"), cwd=tmp_path)
    assert target.holds() == "b 1", "the newer result was replaced by the older one"
    assert "published by attempt 1" in said
    assert (target.kind == "git") != ("replaced since" in said), said
    run = open_for(sqlite_url).find("job", "a")
    assert run and run.status == statuses.SUCCEEDED


def test_a_result_that_never_landed_is_not_put_over_a_newer_one_but_made_anew(target, sqlite_url, tmp_path):
    """Its work is done again: what it left is older than what is there. (A commit follows the branch instead.)"""
    die(sqlite_url, "before", *words(target, "a"), cwd=tmp_path)
    again(sqlite_url, *words(target, "b"), cwd=tmp_path)
    if target.kind == "git":
        return  # a's commit and b's touch one file, and only a person can bring them together
    said = again(sqlite_url, *words(target, "a"), cwd=tmp_path)
    assert target.holds() == "a 2" and "published by attempt 1" not in said


def test_what_the_command_published_is_not_published_again_over_a_newer_one(sqlite_url, tmp_path):
    def words(key: str) -> list[str]:
        script = f"echo {key} > {key}; {TOOL} publish {key} out"
        return ["run", "job", "--key", key, "--wait", "50s", "--lost", "again", "--", "sh", "-ec", script]

    die(sqlite_url, "after", *words("a"), cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "a\n"
    again(sqlite_url, *words("b"), cwd=tmp_path)
    again(sqlite_url, *words("a"), cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "b\n"


def test_a_command_that_publishes_twice_to_one_place_ends_with_its_second(sqlite_url, tmp_path):
    """The attempt before did both, so the second one is known to have landed; but the first was put over it since."""
    script = f"for i in 1 2; do echo $i > new; {TOOL} publish new out; done; [ $NIGHTLATCH_ATTEMPT = 2 ]"
    words = ["run", "job", "--key", "k", "--", "sh", "-ec", script]
    assert nightlatch(sqlite_url, *words, cwd=tmp_path).returncode == 1
    assert nightlatch(sqlite_url, *words, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out").read_text() == "2\n"


@pytest.mark.parametrize(("moment", "newest"), [("after", "theirs\n"), ("before", "a 2\n")])
def test_an_item_of_a_batch_is_not_published_again_over_a_newer_one(sqlite_url, tmp_path, moment, newest):
    """The newer one is another job's: the next start of the batch itself would see to its item first."""
    (tmp_path / "items").write_text('{"id": "a", "name": "out"}\n')
    script = f"echo a >> {tmp_path}/worked; echo a $(grep -c a {tmp_path}/worked) > made"
    publish = ["--publish", f"made={tmp_path}/{{name}}"]
    batch = ["batch", "b", str(tmp_path / "items"), "--key", "{id}", *publish, "--", "sh", "-c", script]
    theirs = ["--workspace", "scratch", "--publish", f"made={tmp_path}/out", "--", "sh", "-c", "echo theirs > made"]
    die(sqlite_url, moment, *batch, cwd=tmp_path)
    again(sqlite_url, "run", "other", *theirs, cwd=tmp_path)
    again(sqlite_url, *batch, cwd=tmp_path)
    assert (tmp_path / "out").read_text() == newest
