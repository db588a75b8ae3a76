"""Retention: old runs go, by hand and by themselves; what is done stays done, and the journal is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightlatch.core.row import RAN, SKIPPED, SlotRecord
from nightlatch.ledger import open_for
from tests.support.programs import environment, faketime, nightlatch, until

LONG_AGO = faketime("-100d")


def folder(store: str) -> Path:
    return Path(store.removeprefix("sqlite:///") + ".d")


@pytest.fixture
def nights(sqlite_url: str) -> str:
    """100 days ago one that succeeded, one that failed and left its workspace; then one of today."""
    words = ("run", "job", "--key")
    assert nightlatch(sqlite_url, *words, "old", "--", "echo", "old", env=LONG_AGO).returncode == 0
    failing = (*words, "failed", "--workspace", "scratch", "--", "sh", "-c", "echo failed; false")
    assert nightlatch(sqlite_url, *failing, env=LONG_AGO).returncode == 1
    assert nightlatch(sqlite_url, *words, "today", "--", "echo", "today").returncode == 0
    (left,) = (folder(sqlite_url) / "workspaces").iterdir()
    os.utime(left, (0, time.time() - 100 * 86400))
    return sqlite_url


def keys(store: str) -> set[str]:
    return {run.key for run in open_for(store).history.runs()}


def whole(store: str) -> None:
    log = folder(store) / "runs.log"
    done = nightlatch(store, "audit", "verify", "--heads", str(log))
    assert done.returncode == 0, done.stdout + done.stderr


def test_old_runs_go_with_output_and_workspace_and_the_journal_is_whole(nights):
    dry = json.loads(nightlatch(nights, "prune", "--dry-run", "--json").stdout)
    assert keys(nights) == {"old", "failed", "today"}
    said = nightlatch(nights, "prune", "--json")
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    assert {**dry, "dry_run": False} == report, "a dry run says what is done then"
    assert (len(report["runs"]), len(report["outputs"]), len(report["workspaces"])) == (2, 2, 1) and report[
        "entries"
    ] > 4
    assert keys(nights) == {"today"}
    assert len(list((folder(nights) / "runs").iterdir())) == 1 and not list((folder(nights) / "workspaces").iterdir())
    whole(nights)
    again = nightlatch(nights, "prune")
    assert again.stdout == "nothing is older than 90d\n"


def test_what_became_of_slots_goes_with_the_runs_and_a_range_that_is_not_over_stays(sqlite_url: str) -> None:
    now, day = time.time() // 1 * 1.0, 86400.0
    old = SlotRecord(first=now - 100 * day, last=now - 100 * day, outcome=RAN, run="r")
    grown = SlotRecord(first=now - 200 * day, last=now - day, count=5, outcome=SKIPPED, reason="paused")
    new = SlotRecord(first=now - day, last=now - day, outcome=RAN, run="s")
    ledger = open_for(sqlite_url)
    ledger.slots.put([("one", old), ("other", old), ("other", grown), ("one", new)])
    dry = json.loads(nightlatch(sqlite_url, "prune", "--dry-run", "--json").stdout)
    assert dry["slots"] == 2 and len(list(ledger.slots.of("one"))) == 2
    assert "2 slot records" in nightlatch(sqlite_url, "prune").stdout
    assert (list(ledger.slots.of("one")), list(ledger.slots.of("other"))) == ([new], [grown])
    assert nightlatch(sqlite_url, "prune").stdout == "nothing is older than 90d\n"


def test_what_is_done_is_not_done_again_after_its_run_was_pruned(nights):
    assert nightlatch(nights, "prune").returncode == 0
    done = nightlatch(nights, "run", "job", "--key", "old", "--", "echo", "twice")
    assert (done.returncode, done.stdout) == (0, "") and "status=skipped" in done.stderr
    assert nightlatch(nights, "run", "job", "--key", "failed", "--", "echo", "new").stdout == "new\n"


def test_what_waits_for_a_person_stays(nights):
    book = open_for(nights)
    waiting = book.open_run("job", "asks")
    book.decisions.attention(waiting.id, "look", "ann")
    time.sleep(0.002)
    assert nightlatch(nights, "prune", "--keep", "0s").returncode == 0
    assert keys(nights) == {"asks"}
    assert nightlatch(nights, "audit", "verify").returncode == 0


def a_day_passes(store: str) -> None:
    stamp = folder(store) / "pruned"
    os.utime(stamp, (0, stamp.stat().st_mtime - 86401))


def test_a_finished_run_prunes_once_a_day_by_itself(nights):
    def finish(key: str, **env: str):
        return nightlatch(nights, "run", "job", "--key", key, "--", "true", env=env)

    os.utime(folder(nights) / "pruned")  # it was made a hundred days ago
    finish("1")
    assert "old" in keys(nights), "a day has not passed"
    a_day_passes(nights)
    finish("2", NIGHTLATCH_KEEP="none")
    assert "old" in keys(nights)
    a_day_passes(nights)
    finish("3", NIGHTLATCH_KEEP="200d")
    assert "old" in keys(nights)
    a_day_passes(nights)
    assert finish("4").returncode == 0
    assert keys(nights) == {"today", "1", "2", "3", "4"}
    whole(nights)


def test_a_keep_that_is_not_understood_is_told_by_every_run(sqlite_url):
    for _ in range(2):
        done = nightlatch(sqlite_url, "run", "a", "--timeout", "1m", "--", "true", env={"NIGHTLATCH_KEEP": "foo"})
        assert done.returncode == 0 and "NIGHTLATCH_KEEP 'foo' is not understood" in done.stderr


def test_a_run_does_not_fail_because_nothing_can_be_pruned(nights):
    a_day_passes(nights)
    odd = nightlatch(nights, "run", "job", "--key", "1", "--", "true", env={"NIGHTLATCH_KEEP": "soon"})
    assert odd.returncode == 0 and "old runs stay" in odd.stderr and "status=succeeded" in odd.stderr
    stamp = folder(nights) / "pruned"
    stamp.unlink()
    stamp.mkdir()
    os.utime(stamp, (0, 0))
    done = nightlatch(nights, "run", "job", "--key", "2", "--", "true")
    assert done.returncode == 0 and "old runs stay" in done.stderr


def test_output_of_runs_that_another_machine_pruned_goes_too(nights):
    gone = open_for(nights).prune(90 * 86400, "another machine").runs
    for run in gone:
        place = folder(nights) / "runs" / run
        for path in (*place.iterdir(), place):
            os.utime(path, (0, time.time() - 100 * 86400))
    report = json.loads(nightlatch(nights, "prune", "--json").stdout)
    assert {os.path.basename(path) for path in report["outputs"]} == set(gone) and not report["runs"]


# It gives a process that has the log open more time than one needs that does not wait for us.
PATIENT = "from nightlatch.runtime.supervisor.afterwards import pruning; pruning._WRITING = 3\nfrom nightlatch.cli.main import main; main()"


def test_the_log_loses_its_old_lines_and_no_line_that_comes_meanwhile(nights):
    log = folder(nights) / "runs.log"
    assert [line.split(" key=")[1].split()[0] for line in log.read_text().splitlines()] == ["old", "failed", "today"]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with (
        log.open("ab", buffering=0) as late,
        subprocess.Popen([sys.executable, "-c", PATIENT, "prune"], env=environment(nights)) as prune,
    ):
        opened = os.fstat(late.fileno())
        until(lambda: not os.path.samestat(os.stat(log), opened))
        late.write(f"ts={stamp} job=job key=late\n".encode())
    assert prune.returncode == 0
    assert [line.split(" key=")[1].split()[0] for line in log.read_text().splitlines()] == ["today", "late"]


STEPS = """
import nightlatch
for number in range(3):
    nightlatch.current().step(str(number), lambda: number)
"""


def test_a_runs_steps_go_with_it_and_a_batchs_items_stay(sqlite_url, tmp_path):
    job = ("run", "job", "--key", "k", "--again", "--", sys.executable, "-c", STEPS)
    for _ in range(2):
        assert nightlatch(sqlite_url, *job, env=LONG_AGO).returncode == 0
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": 1}\n{"id": 2}\n')
    batch = ("batch", "b", str(items), "--key", "{id}", "--", "true")
    assert nightlatch(sqlite_url, *batch, env=LONG_AGO).returncode == 0

    book = open_for(sqlite_url)

    def steps() -> int:
        return int(book._tables.read("SELECT COUNT(*) FROM {prefix}journal WHERE chain LIKE 'steps:%'")[0][0])

    assert (steps(), book.items.counts("b")) == (6, {"done": 2})
    foreseen = book.prunable(0.0).entries
    assert book.prune(0.0, "ann").entries == foreseen
    assert (steps(), book.items.counts("b")) == (0, {"done": 2})
    assert not book.journal.verify().breaks
    assert "2 skipped" in nightlatch(sqlite_url, *batch).stderr


def test_cuts_are_not_cut_for_ever(sqlite_url):
    """A job that does nothing any more: its chain comes to rest."""
    assert nightlatch(sqlite_url, "run", "job", "--", "true").returncode == 0
    for day in ("100", "101", "190.5", "191.5", "300"):
        assert nightlatch(sqlite_url, "prune", env=faketime(f"+{day}d")).returncode == 0
    assert [entry.seq for entry in open_for(sqlite_url).journal.of_job("job")] == [3, 4], "opened and ended were cut"
    assert nightlatch(sqlite_url, "audit", "verify").returncode == 0


def test_a_prune_without_end_is_refused(nights):
    assert nightlatch(nights, "prune", env={"NIGHTLATCH_KEEP": "none"}).returncode == 64
    assert nightlatch(nights, "prune", "--keep", "90").returncode == 64
