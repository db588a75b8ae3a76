"""A run with much to record writes it itself: the same record, whichever process writes it, and the same fence."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightlatch import connect
from nightlatch.ledger import open_for
from tests.support import python_jobs
from tests.support.programs import until

JOBS = """
import asyncio, os, pathlib, time
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

@nightlatch.job(key="k", stall="4s")
def slow(hangs):
    for number in range(3 if hangs else 30):
        nightlatch.current().step(str(number), time.sleep, 0.18)
    if hangs:
        time.sleep(600)

def message(number, fails=()):
    run = nightlatch.current()
    doubled = run.step("double", work, number) + run.step("again", work, number)
    if number in fails:
        raise ValueError("no: " + os.environ.get("API_TOKEN", ""))
    return doubled

@nightlatch.job(key="{name}", lost="again")
def queue(name, count, fails=(), threads=1, dies=None):
    run = nightlatch.current()
    def one(number):
        if number == dies:
            os.kill(os.getpid(), 9)
        try:
            return run.handle(f"m-{number}", message, number, fails)
        except ValueError as error:
            return str(error)
    with ThreadPoolExecutor(threads) as pool:
        print(*pool.map(one, range(count)))

def waits(number):
    nightlatch.current().step("begun", work, number)
    while nightlatch.current().attempt == 1:
        time.sleep(1)
    return number

@nightlatch.job(key="{name}", lost="again", ttl="20s")
def waiting(name):
    for number in range(20):
        nightlatch.current().handle(f"m-{number}", work, number)
    pathlib.Path(os.environ["OUT"]).write_text(str(os.getpid()))
    nightlatch.current().handle("m-last", waits, 7)

@nightlatch.job(key="k")
def secret():
    for number in range(20):
        nightlatch.current().step(str(number), work, number)
    def fails():
        raise ValueError("no: " + os.environ["API_TOKEN"])
    nightlatch.current().step("fails", fails)
"""


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> python_jobs.Jobs:
    return python_jobs.Jobs(tmp_path, ledger_url, JOBS)


def test_the_job_writes_itself_and_the_next_attempt_finds_all(jobs):
    assert jobs.run("many.run(40)").startswith("failed 9")
    ledger = open_for(jobs.store)
    run = ledger.find("many", "k")
    assert run and "lent" in [entry.kind for entry in ledger.journal.of_run(run.id)]
    assert [entry.facts["key"] for entry in ledger.step_log.entries(run.id)] == [str(number) for number in range(40)]
    assert jobs.run("many.run(50)").startswith("succeeded")
    assert len(list(ledger.step_log.entries(run.id))) == 50
    assert not ledger.journal.verify(ledger.journal.heads()).breaks


def test_a_job_does_not_write_itself_where_that_takes_a_password(tmp_path, postgres):
    url = postgres.url_with_password("test_unlent", "unlent")
    jobs = python_jobs.Jobs(tmp_path, url, JOBS)
    assert jobs.run("many.run(40)").startswith("failed 9")
    ledger = open_for(url)
    run = ledger.find("many", "k")
    assert run and "lent" not in [entry.kind for entry in ledger.journal.of_run(run.id)]
    assert len(list(ledger.step_log.entries(run.id))) == 40


@pytest.mark.parametrize("threads", [1, 6])
def test_nested_runs_are_written_begun_again_and_done_once(jobs, threads):
    assert jobs.run(f"queue.run('a', 40, fails=[3, 10], threads={threads}, dies=35)").startswith("failed 137")
    assert jobs.run(f"queue.run('b', 40, threads={threads})").startswith("succeeded")
    ledger, store = open_for(jobs.store), connect(jobs.store)
    found = [ledger.find("queue", f"m-{number}") for number in range(40)]
    assert [run and run.status for run in found] == ["succeeded"] * 40
    again = {number for number, run in enumerate(found) if run and run.attempt == 2}
    assert again >= {3, 10} and all(run and run.attempt <= 2 for run in found)
    done = [store.look("queue", f"m-{number}") for number in range(40)]
    assert [known and known.value for known in done] == [run and run.id for run in found]
    assert jobs.run("queue.run('c', 40)").startswith("succeeded")
    assert [run and ledger.run(run.id) for run in found] == found
    assert not ledger.journal.verify(ledger.journal.heads()).breaks


def test_what_its_process_left_in_the_middle_is_failed_by_the_supervisor(tmp_path, ledger_url):
    jobs = python_jobs.Jobs(tmp_path, ledger_url, JOBS)
    ledger = open_for(ledger_url)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jobs.run, "waiting.run('a')")
        until(lambda: ledger.find("waiting", "m-last"))
        os.kill(int(jobs.out.read_text()), signal.SIGKILL)
        assert running.result().startswith("failed 137")
    last = ledger.find("waiting", "m-last")
    assert last and (last.status, last.reason) == ("failed", "its process ended in the middle of it")
    assert jobs.run("waiting.run('b')").startswith("succeeded")
    assert not ledger.journal.verify(ledger.journal.heads()).breaks


def test_all_that_a_run_consists_of_append_to_one_chain(jobs):
    assert jobs.run("together.run()").startswith("succeeded")
    ledger = open_for(jobs.store)
    run = ledger.find("together", "k")
    assert run
    done = [entry.facts["key"] for entry in ledger.step_log.entries(run.id) if entry.kind == "step-done"]
    assert len(done) == len(set(done)) == 30 + 30 + 4 * 30 + 60 + 30
    assert not ledger.journal.verify(ledger.journal.heads()).breaks


@pytest.mark.parametrize(("hangs", "ends"), [(False, "succeeded"), (True, "stalled")])
def test_steps_that_nobody_tells_of_are_progress(tmp_path, sqlite_url, hangs, ends):
    jobs = python_jobs.Jobs(tmp_path, sqlite_url, JOBS)
    assert jobs.run(f"slow.run({hangs})").startswith(ends)


def test_a_failure_is_told_to_the_supervisor_who_takes_secrets_out(tmp_path, sqlite_url, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2")
    jobs = python_jobs.Jobs(tmp_path, sqlite_url, JOBS)
    assert "ValueError" in jobs.run("secret.run()")
    ledger = open_for(sqlite_url)
    run = ledger.find("secret", "k")
    assert run
    failed = [entry for entry in ledger.step_log.entries(run.id) if entry.kind == "step-failed"]
    assert len(failed) == 1 and failed[0].facts["reason"].startswith("ValueError: no: ")
    assert "hunter2" not in failed[0].facts["reason"]
