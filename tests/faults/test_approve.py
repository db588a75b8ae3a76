"""Approving under faults: killed anywhere between the command's end and the end of `approve`, and decided by many at once.

Nothing lands before the word, exactly once after it, or the run says that it needs a person.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from nightlatch.ledger import kinds, open_for
from nightlatch.system import tree
from nightlatch.testing.expect import until
from tests.support.clones import begun, clone, git
from tests.support.programs import NIGHTLATCH, environment
from tests.support.servers.git import git_repository
from tests.support.staged import Staged

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "3"))
KINDS = ["file", "folder", "git"]


class Target:
    """A place that articles land at, each with its key; and how often it was written to."""

    def __init__(self, kind: str, store: str, tmp_path: Path) -> None:
        self.kind, self.folder = kind, tmp_path
        if kind == "git":
            self.remote = git_repository(tmp_path / "remote.git")
            begun(self.remote, tmp_path / "first")
            folder = clone(self.remote, tmp_path / "site")
            command = f"echo x > article-$NIGHTLATCH_KEY; git add .; git commit -qm article; touch {tmp_path}/ended"
            self.job = Staged(store, folder, command=command, workspace="git", publish=["git"], ttl="2s")
            return
        (tmp_path / "site").mkdir()
        to = {"file": f"made={tmp_path}/out", "folder": f"made/={tmp_path}/out/"}
        made = "mkdir made; echo $NIGHTLATCH_KEY > made/page" if kind == "folder" else "echo $NIGHTLATCH_KEY > made"
        command = f"{made}; touch {tmp_path}/ended"
        self.job = Staged(store, tmp_path / "site", command=command, workspace="scratch", publish=[to[kind]],
                          ttl="2s")  # fmt: skip

    def landed(self, key: str) -> int:
        """How often what was made for this key has landed, as far as it can be seen there."""
        if self.kind == "git":
            names = git(self.remote, "log", "--format=", "--name-only", "main").split()
            return names.count(f"article-{key}")
        path = self.folder / "out" / "page" if self.kind == "folder" else self.folder / "out"
        return int(path.exists() and path.read_text() == f"{key}\n")


def published(store: str, run: str) -> int:
    """How often the journal says that it landed, adopted or not."""
    return sum(entry.kind == kinds.PUBLISHED for entry in open_for(store).entries(run))


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of it and all below it, at once."""
    for pid in (process.pid, *tree.descendants(process.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_the_commands_end_and_the_end_of_approve(kind: str, sqlite_url: str, tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("NIGHTLATCH_SEED", "7")))
    target = Target(kind, sqlite_url, tmp_path)
    job = target.job
    for _ in range(ROUNDS):
        _kill_after_the_command(job, tmp_path / "ended", chance.uniform(0.0, 0.4))
        until(lambda: _held(job), 60, "a plan waits, whoever was killed")
        run = next(one for one in job.runs if one.held is not None)
        assert target.landed(run.key) == 0, "nothing lands before the word"
        _run_and_kill(job, "approve", chance.uniform(0.1, 1.2), run.id, "--yes")
        until(lambda: _approved(job, run.id), 90, "it goes on")  # noqa: B023
        ended = open_for(sqlite_url).run(run.id)
        assert ended and ended.status in ("succeeded", "needs-attention"), ended
        expected = 1 if ended.status == "succeeded" else 0
        assert target.landed(run.key) == expected, (ended, list(open_for(sqlite_url).entries(run.id)))
        assert job("audit", "verify").returncode == 0


def _decided(job: Staged, run: str) -> bool:
    found = open_for(job.store).run(run)
    return found is not None and (found.status == "cancelled" or _approved(job, run))


def _kill_after_the_command(job: Staged, ended: Path, after: float) -> None:
    """Have a slot run, and kill everything so long after its command's end."""
    ended.unlink(missing_ok=True)

    def start() -> subprocess.Popen[bytes]:
        env = environment(job.store, **job.env)
        return subprocess.Popen([*NIGHTLATCH, "tick"], cwd=job.folder, env=env, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip

    process = start()
    while not ended.exists():
        if process.poll() is not None:  # nothing was due yet
            process = start()
        time.sleep(0.005)
    time.sleep(after)
    kill_tree(process)


def _held(job: Staged) -> bool:
    if not any(run.held is not None for run in job.runs):
        job("tick")
    return any(run.held is not None for run in job.runs)


def _approved(job: Staged, run: str) -> bool:
    found = open_for(job.store).run(run)
    assert found
    if found.held is not None or found.status not in ("succeeded", "needs-attention", "cancelled"):
        job("approve", run, "--yes")
    found = open_for(job.store).run(run)
    return found is not None and found.status in ("succeeded", "needs-attention")


def _run_and_kill(job: Staged, command: str, after: float, *words: str) -> None:
    env = environment(job.store, **job.env)
    process = subprocess.Popen([*NIGHTLATCH, command, *words], cwd=job.folder, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        kill_tree(process)


def test_twenty_approve_and_cancel_one_plan_and_one_wins(sqlite_url: str, tmp_path: Path) -> None:
    """All but the one that decides are refused, or go on with what it decided; the world agrees with the journal."""
    target = Target("file", sqlite_url, tmp_path)
    job = target.job
    run = job.hold()
    env = environment(sqlite_url)
    words = [["approve", run.id, "--yes"] if number % 2 else ["cancel", run.id] for number in range(20)]
    started = [
        subprocess.Popen([*NIGHTLATCH, *one], cwd=job.folder, env=env, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
        for one in words
    ]  # fmt: skip
    codes = Counter[tuple[str, int]]()
    said = []
    for one, process in zip(words, started, strict=True):
        said.append((one[0], process.communicate(timeout=120)[1], process.returncode))
        codes[one[0], process.returncode] += 1
    assert {code for _, code in codes} <= {0, 64, 75, 76}, (codes, said)
    time.sleep(0.1)
    entries = [one.kind for one in open_for(sqlite_url).job_entries("articles") if one.facts.get("run") == run.id]
    assert entries.count(kinds.APPROVED) + entries.count(kinds.CANCELLED) >= 1
    ended = open_for(sqlite_url).run(run.id)
    assert ended
    if entries.count(kinds.APPROVED):
        until(lambda: _decided(job, run.id), 60, "it ends")
        ended = open_for(sqlite_url).run(run.id)
        assert ended
    assert target.landed(run.key) == (1 if ended.status == "succeeded" else 0), (ended, entries)
    assert published(sqlite_url, run.id) == (1 if ended.status == "succeeded" else 0)
