"""`run.step` and `run.map`: what is recorded is not done again, by real runs under real supervisors."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests import nightly
from tests.programs import environment

JOBS = """
import asyncio, os, pathlib, sys, time
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

def note(*words):
    with OUT.open("a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

def add(a, b):
    note("add", a, b)
    return a + b

def pair(name):
    note("pair", name)
    return (name, {"length": len(name)})

async def later(name):
    await asyncio.sleep(0)
    note("later", name)
    return name.upper()

def dies_first(what=None):
    if nightlatch.current().attempt == 1:
        raise SystemExit(9)

@nightlatch.job(key="k")
def two_steps():
    run = nightlatch.current()
    total = run.step("sum", add, 1, b=2)
    shown = run.step("pair", pair, "ü")
    dies_first()
    note("got", total, shown)

@nightlatch.job(key="k")
async def two_async_steps():
    run = nightlatch.current()
    shown = await asyncio.gather(run.step("a", later, "a"), run.step("b", later, "b"))
    dies_first()
    note("got", shown)

@nightlatch.job(key="k")
def unserialisable():
    run = nightlatch.current()
    run.step("good", add, 1, 2)
    run.step("bad", object)

class Flaky(Exception):
    def __init__(self, status, after=""):
        self.response = type("R", (), {"status_code": status, "headers": {"Retry-After": after}})()

failures = []

def flaky(status, times):
    failures.append(status)
    note("try", status)
    if failures.count(status) <= times:
        raise Flaky(status, "0.05")
    return status

@nightlatch.job(key="k")
def retried():
    run = nightlatch.current()
    run.step("passing", flaky, 429, 2, retry=lambda error, tries: 0.01 if tries < 3 else None)
    began = time.monotonic()
    run.step("asked", flaky, 503, 1, retry=3)
    note("waited", time.monotonic() - began >= 0.05)
    run.step("permanent", flaky, 403, 1, retry=3)

@nightlatch.job(key="k")
def reused():
    run = nightlatch.current()
    assert [run.step("sum", add, 1, 2) for _ in range(2)] == [3, 3]
    run.step("sum", add, 1, 3)

@nightlatch.job(key="k")
def looped():
    run = nightlatch.current()
    def sums(): return run.step("sums", lambda: add(1, add(2, 3)))
    assert [sums(), sums()] == [6, 6]
    for number in range(2):
        run.step("number", lambda: add(number, 1))

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

@nightlatch.job(key="k")
def mute():
    def fails(number):
        note("page", number)
        if number == 1:
            raise Mute
        return number
    note("results", *nightlatch.current().map(fails, range(3), failures="return"))

def page(item):
    note("page", item["slug"])
    if item.get("fails") and nightlatch.current().attempt == 1:
        raise ValueError("no such page")
    return item["slug"] + "!"

@nightlatch.job(key="k")
def mapped(slugs, fails=(), concurrency=1):
    items = [{"slug": slug, "fails": slug in fails} for slug in slugs]
    results = nightlatch.current().map(page, items, key="{slug}", concurrency=concurrency)
    note("results", *results)

async def page_async(slug):
    await asyncio.sleep(0.001)
    return page({"slug": slug})

@nightlatch.job(key="k")
async def mapped_async(slugs):
    run = nightlatch.current()
    note("results", *await run.map(page_async, slugs, concurrency=4))
    note("again", *run.map(page, [{"slug": slug} for slug in slugs], key=lambda item: item["slug"]))
    dies_first()

@nightlatch.job(key="k")
def returned():
    items = [{"slug": "a"}, {}, {"slug": "b", "fails": True}, {"slug": "a"}]
    results = nightlatch.current().map(page, items, key="{slug}", failures="return")
    note("results", *results)
    for failed in results.failed:
        note("failed", repr(failed))
    note("duplicates", *results.duplicates)

def wrong_password(number):
    note("page", number)
    raise PermissionError(f"401 for {number}")

@nightlatch.job(key="k")
def burning():
    nightlatch.current().map(wrong_password, range(200), concurrency=2)

def poison(number):
    note("page", number)
    if number == 2 and nightlatch.current().attempt < 5:
        os.kill(os.getpid(), 9)

@nightlatch.job(key="k")
def poisoned():
    nightlatch.current().map(poison, range(4))

@nightlatch.job(key="k")
def stopped():
    def stops(number):
        note("page", number)
        if number == 2:
            raise nightlatch.LeaseLost("taken", reason="taken")
    nightlatch.current().map(stops, range(50), concurrency=2, failures="return")
    note("went on")

@nightlatch.job(key="k")
async def stopped_async():
    async def stops(number):
        note("page", number)
        await asyncio.sleep(0)
        if number == 2:
            raise nightlatch.LeaseLost("taken", reason="taken")
    await nightlatch.current().map(stops, range(50), concurrency=2, failures="return")
    note("went on")

@nightlatch.job(key="k")
async def cancelled():
    async def page(number):
        if number == 1:
            inner = asyncio.ensure_future(asyncio.sleep(600))
            inner.cancel()
            await inner
        return number
    run = nightlatch.current()
    results = await run.map(page, range(4), concurrency=2, failures="return")
    note("results", *results, *results.failed)
    try:
        async with asyncio.timeout(0.1):
            await run.map(asyncio.sleep, [600, 601], concurrency=2, failures="return")
    except TimeoutError:
        note("cancelled")
"""


class Jobs(nightly.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS)

    def steps(self, job: str, state: str) -> dict[str, str]:
        ledger = open_for(self.store)
        run = ledger.find(job, "k")
        assert run
        said = {entry.facts["key"]: entry for entry in ledger.step_log.entries(run.id)}
        last = {key: entry for key, entry in said.items() if entry.kind == f"step-{state}"}
        return {key: entry.facts.get("reason", "") for key, entry in last.items()}


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
    assert not open_for(jobs.store).verify().breaks


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
    again = [sys.executable, "-P", "-m", "nightlatch", "run", "two_steps", "--key", "k", "--again", "--lost", "again"]
    child = ["--", sys.executable, "-m", "nightlatch.runtime.runs.child", "nightly:two_steps"]
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
    assert not open_for(jobs.store).verify().breaks


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
    assert "with the key of another one: done once" in local.said


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
    ledger.retry(run.id, "me")
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
