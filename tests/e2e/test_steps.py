"""`run.step` and `run.map`: what is recorded is not done again, by real runs under real supervisors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.support.programs import environment
from tests.support.step_jobs import Jobs


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> Jobs:
    return Jobs(tmp_path, ledger_url)


@pytest.fixture
def local(tmp_path: Path, sqlite_url: str) -> Jobs:
    return Jobs(tmp_path, sqlite_url)


def test_the_next_attempt_gets_what_is_recorded_and_calls_nothing_again(jobs):
    assert jobs.run("two_steps.run()").startswith("failed 9")
    assert jobs.notes == ["add 1 2", "pair ü"]
    assert jobs.run("two_steps.run()").startswith("succeeded")
    assert jobs.notes == ["got 3 ['ü', {'length': 1}]"]
    assert not open_for(jobs.store).journal.verify().breaks


def test_a_first_attempt_sees_results_as_the_next_one_would(local):
    local.run("two_steps.run()")
    jobs = local.folder / "nightly.py"
    jobs.write_text(jobs.read_text().replace("attempt == 1", "attempt == 7"))
    assert local.run("two_steps.run()").startswith("succeeded")
    assert local.notes[-1] == "got 3 ['ü', {'length': 1}]"


def test_steps_are_awaited_where_the_function_is_async(jobs):
    assert jobs.run("two_async_steps.run()").startswith("failed 9")
    assert sorted(jobs.notes) == ["later a", "later b"]
    assert jobs.run("two_async_steps.run()").startswith("succeeded")
    assert jobs.notes == ["got ['A', 'B']"]


def test_a_run_done_again_begins_with_no_steps(local):
    local.run("two_steps.run()")
    local.run("two_steps.run()")
    local.notes  # noqa: B018 - forget them
    jobs = local.folder / "nightly.py"
    jobs.write_text(jobs.read_text().replace("attempt == 1", "attempt == 3"))
    os.utime(jobs, (1, 1))  # Python compiles it again only if its size or its time in seconds has changed
    again = [sys.executable, "-P", "-m", "nightlatch", "run", "two_steps", "--key", "k", "--again", "--lost", "again"]
    child = ["--", sys.executable, "-m", "nightlatch.runtime.child.python_job", "nightly:two_steps"]
    given = f'{{"args": [], "kwargs": {{}}, "path": ["{local.folder}"]}}'
    env = environment(local.store, OUT=str(local.out))
    assert subprocess.run([*again, *child, given], env=env, capture_output=True).returncode == 9
    assert local.notes == ["add 1 2", "pair ü"]
    assert subprocess.run([*again, *child, given], env=env, capture_output=True).returncode == 0
    assert local.notes == ["got 3 ['ü', {'length': 1}]"]  # those of the third attempt


def test_a_result_that_cannot_be_recorded_is_named_and_not_done(local):
    said = local.run("unserialisable.run()")
    assert said.startswith("failed 64") and "'bad'" in said and "JSON" in said
    assert list(local.steps("unserialisable", "done")) == ["good"]
    assert "JSON" in local.steps("unserialisable", "failed")["bad"]


def test_what_may_pass_is_tried_again_and_what_may_not_is_not(local):
    assert "Flaky" in local.run("retried.run()")
    assert Counter(local.notes) == {"try 429": 3, "try 503": 2, "waited True": 1, "try 403": 1}
    assert list(local.steps("retried", "failed")) == ["permanent"]


def test_a_key_used_for_other_work_is_refused(local):
    said = local.run("reused.run()")
    assert "other work" in said and local.notes == ["add 1 2"]


def test_a_key_that_a_loop_uses_again_with_other_data_is_refused(local):
    said = local.run("looped.run()")
    assert "other work" in said and local.notes == ["add 2 3", "add 1 5", "add 0 1"]


def test_an_exception_without_a_text_fails_its_item_alone(local):
    assert local.run("mute.run()").startswith("succeeded")
    assert local.notes == ["page 0", "page 1", "page 2", "results 0 None 2"]
    assert local.steps("mute", "failed") == {"1": "Mute"}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_map_does_only_what_is_unfinished_whatever_the_order(jobs, concurrency):
    first = jobs.run(f"mapped.run(['a', 'b', 'c', 'd', 'e'], ['b', 'd'], concurrency={concurrency})")
    assert first.startswith("failed 1") and "2 of 5 items failed: " in first and "(ValueError: no such page)" in first
    assert sorted(jobs.notes) == [f"page {slug}" for slug in "abcde"]
    assert jobs.steps("mapped", "failed") == dict.fromkeys("bd", "ValueError: no such page")
    again = jobs.run(f"mapped.run(['x', 'e', 'd', 'a', 'b'], ['b', 'd'], concurrency={concurrency})")
    assert again.startswith("succeeded")
    *pages, results = jobs.notes
    assert sorted(pages) == ["page b", "page d", "page x"]
    assert results == "results x! e! d! a! b!"
    assert not open_for(jobs.store).journal.verify().breaks


def test_a_map_of_an_async_function_is_awaited_and_two_maps_do_not_meet(jobs):
    slugs = [f"s{number}" for number in range(30)]
    results = " ".join(f"{slug}!" for slug in slugs)
    assert jobs.run(f"mapped_async.run({slugs!r})").startswith("failed 9")
    notes = jobs.notes
    assert notes[30] == f"results {results}" and len(notes) == 62
    assert jobs.run(f"mapped_async.run({slugs!r})").startswith("succeeded")
    assert jobs.notes == [f"results {results}", f"again {results}"]
    run = open_for(jobs.store).find("mapped_async", "k")
    assert run and (run.done, run.total) == (0, 0)  # the second attempt had nothing to do


def test_failures_are_returned_if_wanted_and_duplicates_are_done_once(local):
    assert local.run("returned.run()").startswith("succeeded")
    notes = local.notes
    assert notes[:2] == ["page a", "page b"]
    assert notes[2] == "results a! None None a!"
    assert sorted(notes[3:5]) == [
        "failed <Failed b: ValueError: no such page>",
        "failed <Failed item 1: it has no key: there is no field 'slug' (plain braces are written {{ and }})>",
    ]
    assert notes[5] == "duplicates a"
    assert "with the key of another item, which is done for both" in local.said


def test_a_map_stops_when_most_items_fail_in_the_same_way(local):
    said = local.run("burning.run()")
    assert "paused" in said and "401" in said
    assert len(local.notes) < 100


def test_an_item_that_attempts_die_on_is_set_aside_for_a_person(local):
    for _ in range(3):
        assert local.run("poisoned.run()").startswith("failed 137")
    assert Counter(local.notes) == {"page 0": 1, "page 1": 1, "page 2": 3}
    aside = local.run("poisoned.run()")
    assert aside.startswith("needs-attention 76") and "2 (set aside: 3 attempts died" in aside
    assert local.notes == ["page 3"]
    ledger = open_for(local.store)
    run = ledger.find("poisoned", "k")
    assert run
    ledger.decisions.retry(run.id, "me")
    assert local.run("poisoned.run()").startswith("succeeded")
    assert local.notes == ["page 2"]


def test_an_item_that_awaits_what_is_cancelled_fails_alone(local):
    assert local.run("cancelled.run()").startswith("succeeded")
    failed = "<Failed 1: RuntimeError: what it awaited was cancelled>"
    assert local.notes == [f"results 0 None 2 3 {failed}", "cancelled"]


@pytest.mark.parametrize("job", ["stopped", "stopped_async"])
def test_a_stop_in_an_item_stops_the_map(local, job):
    assert local.run(f"{job}.run()").startswith("failed 123")
    notes = local.notes
    assert "went on" not in notes and len(notes) < 40
