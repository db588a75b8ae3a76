"""A run with many steps writes them itself: the same record, whoever holds the pen, and the same fence."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests import nightly

JOBS = """
import asyncio, os, time
from concurrent.futures import ThreadPoolExecutor
import nightlatch

def work(number):
    return number

async def later(number):
    return number

@nightlatch.job(key="k")
def many(count):
    for number in range(count):
        nightlatch.current().step(str(number), work, number)
    if nightlatch.current().attempt == 1:
        raise SystemExit(9)

def in_child(first):
    run = nightlatch.current()
    return [run.step(f"{first}-{number}", work, number) for number in range(30)]

@nightlatch.job(key="k")
def together():
    \"\"\"Threads, a fork, a map, and an event loop: all at once on one chain.\"\"\"
    run = nightlatch.current()
    in_child("before")
    forked = os.fork()
    if not forked:
        in_child("fork")
        os._exit(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(in_child, range(4)))
    run.map(work, range(60), concurrency=3)
    async def loop():
        await asyncio.gather(*(run.step(f"async-{number}", later, number) for number in range(30)))
    asyncio.run(loop())
    assert os.waitpid(forked, 0)[1] == 0

@nightlatch.job(key="k", stall="3s")
def slow(hangs):
    for number in range(30):
        nightlatch.current().step(str(number), time.sleep, 0.15)
    if hangs:
        time.sleep(60)

@nightlatch.job(key="k")
def secret():
    for number in range(20):
        nightlatch.current().step(str(number), work, number)
    def fails():
        raise ValueError("no: " + os.environ["API_TOKEN"])
    nightlatch.current().step("fails", fails)
"""


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> nightly.Jobs:
    return nightly.Jobs(tmp_path, ledger_url, JOBS)


def test_it_is_lent_where_the_ledger_is_a_file_and_the_next_attempt_finds_all(jobs):
    assert jobs.run("many.run(40)").startswith("failed 9")
    ledger = open_for(jobs.store)
    run = ledger.find("many", "k")
    assert run
    assert ("lent" in [entry.kind for entry in ledger.entries(run.id)]) is jobs.store.startswith("sqlite:")
    assert [entry.facts["key"] for entry in ledger.step_log.entries(run.id)] == [str(number) for number in range(40)]
    assert jobs.run("many.run(50)").startswith("succeeded")
    assert len(list(ledger.step_log.entries(run.id))) == 50
    assert not ledger.verify(ledger.heads()).breaks


def test_all_that_a_run_consists_of_append_to_one_chain(jobs):
    assert jobs.run("together.run()").startswith("succeeded")
    ledger = open_for(jobs.store)
    run = ledger.find("together", "k")
    assert run
    done = [entry.facts["key"] for entry in ledger.step_log.entries(run.id) if entry.kind == "step-done"]
    assert len(done) == len(set(done)) == 30 + 30 + 4 * 30 + 60 + 30
    assert not ledger.verify(ledger.heads()).breaks


@pytest.mark.parametrize(("hangs", "ends"), [(False, "succeeded"), (True, "stalled")])
def test_steps_that_nobody_tells_of_are_progress(tmp_path, sqlite_url, hangs, ends):
    jobs = nightly.Jobs(tmp_path, sqlite_url, JOBS)
    assert jobs.run(f"slow.run({hangs})").startswith(ends)


def test_a_failure_is_told_to_the_supervisor_who_takes_secrets_out(tmp_path, sqlite_url, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2")
    jobs = nightly.Jobs(tmp_path, sqlite_url, JOBS)
    assert "ValueError" in jobs.run("secret.run()")
    ledger = open_for(sqlite_url)
    run = ledger.find("secret", "k")
    assert run
    failed = [entry for entry in ledger.step_log.entries(run.id) if entry.kind == "step-failed"]
    assert len(failed) == 1 and failed[0].facts["reason"].startswith("ValueError: no: ")
    assert "hunter2" not in failed[0].facts["reason"]
