"""Approving under faults: killed anywhere between the command's end and the end of `approve`, and decided by many at once.

Nothing lands before the word, exactly once after it, or the run says that it needs a person.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch.core.value import replace
from nightlatch.ledger import kinds, open_for
from nightlatch.runtime.supervisor.run.rows import move_row
from nightlatch.store import url
from nightlatch.testing.expect import until
from tests.support import approve_kills
from tests.support.approve_kills import KINDS, Target
from tests.support.programs import NIGHTLATCH, environment
from tests.support.servers import s3

KILLS = int(os.environ.get("NIGHTLATCH_ROUNDS", "6"))
AT_ONCE = int(os.environ.get("NIGHTLATCH_AT_ONCE", "2"))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def endpoint() -> Iterator[str]:
    with s3.server() as server, s3.lossy(server) as (in_front, _):
        yield in_front


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_the_commands_end_and_the_end_of_approve(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at = request.getfixturevalue("endpoint") if kind == "object" else ""
    points, ends = approve_kills.kill(kind, KILLS, tmp_path, os.environ.get("NIGHTLATCH_SEED", "7"), at, AT_ONCE)
    print(f"{points.total()} kills at {kind}, {dict(ends)}:", *points.most_common(), sep="\n  ")
    assert points.total() >= KILLS


@pytest.mark.parametrize("verb", ["approve", "cancel"])
@pytest.mark.parametrize("kind", ["file", "git store"])
def test_killed_between_the_plan_of_the_ledger_and_that_of_the_row(kind: str, verb: str, tmp_path: Path) -> None:
    """The supervisor never got to tell the row that its claim waits: what a person decides counts all the same."""
    target = Target(kind, tmp_path)
    job, store, ledger = target.job, url.connect(target.store), open_for(target.store)
    run = job.hold()
    row = job.row
    assert row.claim
    begun = replace(row.claim, held=None, run="", grant=run.grant, token=run.token)
    assert move_row(store, ledger, row, replace(row, claim=begun))
    job.ok(verb, run.id, *(["--yes"] if verb == "approve" else []))
    assert target.landed(run.key) == (1 if verb == "approve" else 0)
    assert job.row.claim and job.row.claim.ended == ("succeeded" if verb == "approve" else "cancelled")
    assert job.row.counters == {job.row.claim.ended: 1}, "counted once"


@pytest.mark.parametrize("kind", ["file", "git store"])
def test_twenty_approve_and_cancel_one_plan_and_one_wins(kind: str, tmp_path: Path) -> None:
    """All but the one that decides are refused, or go on with what it decided; the world agrees with the journal."""
    target = Target(kind, tmp_path)
    job = target.job
    run = job.hold()
    words = [["approve", run.id, "--yes"] if number % 2 else ["cancel", run.id] for number in range(20)]
    started = [
        subprocess.Popen([*NIGHTLATCH, *one], cwd=job.folder, env=environment(target.store, **job.env),
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for one in words
    ]  # fmt: skip
    answers = [process.communicate(timeout=300)[1] for process in started]
    codes = Counter((one[0], process.returncode) for one, process in zip(words, started, strict=True))
    assert {code for _, code in codes} <= {0, 64, 75, 76, 120}, (codes, answers)
    until(lambda: _is_decided(target, run.id), 120, "it ends")
    ended = open_for(target.store).run(run.id)
    assert ended
    landed = 1 if ended.status == "succeeded" else 0
    assert target.landed(run.key) == landed, (ended, answers)
    entries = [one.kind for one in open_for(target.store).journal.of_run(run.id)]
    assert entries.count(kinds.PUBLISHED) == landed
    words_given = [
        one.kind for one in open_for(target.store).journal.of_job("articles") if one.facts.get("run") == run.id
    ]
    assert words_given.count(kinds.APPROVED) <= 1
    assert job.row.claim and job.row.claim.ended == ended.status and job.row.counters == {ended.status: 1}


@pytest.mark.parametrize("kind", ["file", "git store"])
def test_cancelled_while_it_is_being_approved_the_command_is_not_run_again(kind: str, tmp_path: Path) -> None:
    """What the command would make then, nobody has looked at. The `cancel` is killed before it reaches the job's row."""
    target = Target(kind, tmp_path)
    job, go = target.job, tmp_path / "go"
    job.write(wait="60s")
    run, env = job.hold(), environment(target.store, **job.env)
    line = Path(url.connect(target.store).folder) / "line" / "articles"
    script = f"touch {go}.not; while [ ! -e {go} ]; do sleep 0.05; done"
    with subprocess.Popen([*NIGHTLATCH, "lock", "articles", "--", "sh", "-c", script], env=env) as other:
        until(Path(f"{go}.not").exists, 60, "the lease is held")
        line.unlink(missing_ok=True)
        with subprocess.Popen([*NIGHTLATCH, "approve", run.id, "--yes"], cwd=job.folder, env=env) as approve:
            until(line.exists, 60, "approve waits for the lease")
            open_for(target.store).decisions.request_cancel(run.id, "ann")
            go.touch()
            approve.wait(60)
        other.wait(60)
    ended = open_for(target.store).run(run.id)
    assert ended and (ended.status, ended.attempt) == ("cancelled", 1)
    assert target.landed(run.key) == 0


def _is_decided(target: Target, run: str) -> bool:
    found = open_for(target.store).run(run)
    assert found
    if found.status in approve_kills.DECIDED:
        return True
    target.job("approve", run, "--yes")
    return False
