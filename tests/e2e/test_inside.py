"""`run.handle`: many pieces of work in one supervised process, each a run of its own."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import nightlatch
from nightlatch.ledger import open_for
from tests.support import python_jobs
from tests.support.programs import nightlatch as command

JOBS = """
import asyncio, os, pathlib, sys
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

def note(*words):
    with OUT.open("a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

def double(number):
    note("double", number)
    return number * 2

def message(number, fails=False):
    run = nightlatch.current()
    result = run.step("double", double, number)
    if fails:
        raise ValueError("cannot be sent")
    return {"key": run.key, "attempt": run.attempt, "result": result}

@nightlatch.job(key="{name}", lost="again")
def queue(name, fails=(), dies=None):
    run = nightlatch.current()
    for number in range(3):
        if number == dies:
            os.kill(os.getpid(), 9)
        try:
            note(run.handle(f"m-{number}", message, number, number in fails))
        except ValueError as error:
            note("failed", error)
    assert nightlatch.current() is run

@nightlatch.job(key="{name}")
async def queue_async(name):
    run = nightlatch.current()
    async def one(number):
        await asyncio.sleep(0)
        return nightlatch.current().key, await nightlatch.current().step("d", asyncio.to_thread, double, number)
    note(await asyncio.gather(*(run.handle(f"m-{number}", one, number) for number in range(5))))

@nightlatch.job(key="k")
def itself():
    nightlatch.current().handle("k", double, 1)

def in_doubt():
    raise nightlatch.InDoubt("nobody knows")

@nightlatch.job(key="{name}")
def doubtful(name):
    try:
        nightlatch.current().handle("m", in_doubt)
    except nightlatch.InDoubt as doubt:
        note(doubt)

def dies():
    os.kill(os.getpid(), 9)

@nightlatch.job(key="{name}")
def twice(name):
    for fails in (True, False):
        try:
            note(nightlatch.current().handle("m", message, 1, fails))
        except ValueError as error:
            note("failed", error)

@nightlatch.job(key="{name}")
def slow(name):
    from nightlatch.ledger import open_for
    def seen():
        while not (run := open_for(os.environ["STORE"]).find("slow", "m")):
            pass
        note(run.status, run.attempt)
    nightlatch.current().handle("m", seen)

def opened_by_hand(book, steps):
    run = nightlatch.current()
    note("opened", book.open_run("by_hand", run.key).attempt)
    for number in range(steps):
        run.step(f"s{number}", double, number)
    return "worked"

@nightlatch.job(key="{name}")
def by_hand(name, steps, words):
    from nightlatch.ledger import open_for
    run, book = nightlatch.current(), open_for(os.environ["STORE"])
    book.find("by_hand", "m")
    for number in range(words):
        run.step(f"word {number}", int, number)  # so many that the process writes for itself
    note(run.handle("m", opened_by_hand, book, steps))

@nightlatch.job(key="{name}")
def dying(name):
    nightlatch.current().handle("m", dies)
"""


class Jobs(python_jobs.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS)
        self.ledger = open_for(store)

    def status(self, job: str, key: str) -> tuple[str, int]:
        run = self.ledger.find(job, key)
        assert run
        return run.status, run.attempt


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> Jobs:
    return Jobs(tmp_path, ledger_url)


def test_each_piece_is_a_run_with_its_own_steps_and_verdict_and_is_done_once(jobs):
    assert jobs.run("queue.run('a', fails=[1])").startswith("succeeded")
    first = {number: f"{{'key': 'm-{number}', 'attempt': 1, 'result': {number * 2}}}" for number in range(3)}
    assert jobs.notes == ["double 0", first[0], "double 1", "failed cannot be sent", "double 2", first[2]]
    assert [jobs.status("queue", f"m-{number}")[0] for number in range(3)] == ["succeeded", "failed", "succeeded"]
    failed = jobs.ledger.find("queue", "m-1")
    assert failed and failed.reason == "ValueError: cannot be sent"
    assert jobs.run("queue.run('b')").startswith("succeeded")
    again = first[1].replace("'attempt': 1", "'attempt': 2")
    assert jobs.notes == [first[0], again, first[2]]  # its step is recorded, and not called again
    assert jobs.status("queue", "m-1") == ("succeeded", 2)
    assert all(nightlatch.connect(jobs.store).look("queue", f"m-{number}") for number in range(3))
    assert not jobs.ledger.journal.verify(jobs.ledger.journal.heads()).breaks


def test_a_done_key_that_a_power_failure_took_is_put_back_and_nothing_is_done_again(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("queue.run('a')").startswith("succeeded")
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as store:
        assert store.execute("DELETE FROM done WHERE key LIKE 'm-%'").rowcount == 3
    store.close()
    jobs.out.write_text("")
    assert jobs.run("queue.run('b')").startswith("succeeded")
    assert not [note for note in jobs.notes if note.startswith("double")]
    assert all(nightlatch.connect(sqlite_url).look("queue", f"m-{number}") for number in range(3))


def test_retention_leaves_what_is_done_and_not_marked_so(jobs):
    """As if it had been killed between the verdict and the done key, and asked again months later."""
    assert jobs.run("queue.run('a', fails=[1])").startswith("succeeded")
    store = nightlatch.connect(jobs.store)
    with store._db.transaction() as execute:  # type: ignore[attr-defined]
        execute(f"DELETE FROM {store._db.prefix}done WHERE key = 'm-2'")  # type: ignore[attr-defined]
    would = json.loads(command(jobs.store, "prune", "--keep", "0s", "--dry-run", "--json").stdout)
    pruned = command(jobs.store, "prune", "--keep", "0s", "--json")
    assert {**json.loads(pruned.stdout), "dry_run": True, "keep": would["keep"]} == would, pruned.stderr
    assert [(run.key, run.status) for run in jobs.ledger.history.runs()] == [("m-2", "succeeded")]
    assert jobs.notes and jobs.run("queue.run('b')").startswith("succeeded")
    assert [note for note in jobs.notes if note.startswith("double")] == ["double 1"], "what had failed"
    assert store.look("queue", "m-2")
    assert command(jobs.store, "prune", "--keep", "0s").returncode == 0
    assert not list(jobs.ledger.history.runs()) and not jobs.ledger.journal.verify(jobs.ledger.journal.heads()).breaks


def test_what_a_killed_process_left_is_begun_again(jobs):
    assert jobs.run("dying.run('a')").startswith("failed 137")
    assert jobs.status("dying", "m") == ("failed", 1)
    assert jobs.run("dying.run('b')").startswith("failed 137")
    assert jobs.status("dying", "m") == ("failed", 2)
    assert not jobs.ledger.journal.verify().breaks


def test_coroutines_are_handled_side_by_side(jobs):
    assert jobs.run("queue_async.run('a')").startswith("succeeded")
    assert jobs.notes[-1] == str([[f"m-{number}", number * 2] for number in range(5)])


def test_the_key_of_the_run_itself_is_refused(tmp_path, sqlite_url):
    assert "in this very run" in Jobs(tmp_path, sqlite_url).run("itself.run()")


def test_one_that_takes_a_while_is_seen_before_its_first_step(tmp_path, ledger_url, monkeypatch):
    monkeypatch.setenv("STORE", ledger_url)
    jobs = Jobs(tmp_path, ledger_url)
    assert jobs.run("slow.run('a')").startswith("succeeded")
    assert jobs.notes == ["running 1"]
    assert jobs.status("slow", "m") == ("succeeded", 1)


def test_what_failed_is_handled_again_in_the_same_run(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("twice.run('a')").startswith("succeeded")
    assert jobs.notes[-2:] == ["failed cannot be sent", "{'key': 'm', 'attempt': 2, 'result': 2}"]
    assert jobs.status("twice", "m") == ("succeeded", 2)


def test_a_doubt_waits_for_a_person(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("doubtful.run('a')").startswith("succeeded")
    assert jobs.status("doubtful", "m") == ("needs-attention", 1)
    assert jobs.run("doubtful.run('b')").startswith("succeeded")
    first, second = jobs.notes
    assert first == "nobody knows" and "nightlatch resolve" in second
    assert jobs.status("doubtful", "m") == ("needs-attention", 1)


def test_a_run_by_hand_does_not_go_on_with_a_run_inside_another(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    jobs.run("queue.run('a', fails=[2])")
    newest = jobs.ledger.newest("queue")
    assert newest and newest.key == "a"


@pytest.mark.parametrize(("steps", "words"), [(0, 0), (2, 0), (2, 9)])
def test_a_key_that_somebody_starts_by_hand_meanwhile_is_still_handled_once(
    tmp_path, ledger_url, monkeypatch, steps, words
):
    monkeypatch.setenv("STORE", ledger_url)
    jobs = Jobs(tmp_path, ledger_url)
    report = jobs.run(f"by_hand.run('a', {steps}, {words})")
    assert report.startswith("succeeded"), report
    opened, *notes = jobs.notes
    assert opened in ("opened 0", "opened 1")  # 1: so busy is the machine that its beginning was recorded by then
    assert notes == [*(f"double {number}" for number in range(steps)), "worked"]
    assert jobs.status("by_hand", "m") == ("succeeded", 1)
    done = nightlatch.connect(ledger_url).look("by_hand", "m")
    assert done and (run := jobs.ledger.find("by_hand", "m")) and done.value == run.id
    assert len(list(jobs.ledger.step_log.entries(run.id))) == steps + 1
    assert not jobs.ledger.journal.verify(jobs.ledger.journal.heads()).breaks
