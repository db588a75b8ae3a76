"""`run.handle`: many pieces of work in one supervised process, each a run of its own."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import nightlatch
from nightlatch.core.model import Holder
from nightlatch.errors import RunEnded, StaleToken, StoreUnreachable
from nightlatch.ledger import open_for
from nightlatch.ledger.inside import InnerRun, Inside
from nightlatch.ledger.ledger import Ledger
from nightlatch.system import identity
from tests import nightly
from tests.programs import nightlatch as command
from tests.programs import until

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
        note(run.state, run.attempt)
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


class Jobs(nightly.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS)
        self.ledger = open_for(store)

    def state(self, job: str, key: str) -> tuple[str, int]:
        run = self.ledger.find(job, key)
        assert run
        return run.state, run.attempt


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> Jobs:
    return Jobs(tmp_path, ledger_url)


def test_each_piece_is_a_run_with_its_own_steps_and_verdict_and_is_done_once(jobs):
    assert jobs.run("queue.run('a', fails=[1])").startswith("succeeded")
    first = {number: f"{{'key': 'm-{number}', 'attempt': 1, 'result': {number * 2}}}" for number in range(3)}
    assert jobs.notes == ["double 0", first[0], "double 1", "failed cannot be sent", "double 2", first[2]]
    assert [jobs.state("queue", f"m-{number}")[0] for number in range(3)] == ["succeeded", "failed", "succeeded"]
    failed = jobs.ledger.find("queue", "m-1")
    assert failed and failed.reason == "ValueError: cannot be sent"
    assert jobs.run("queue.run('b')").startswith("succeeded")
    again = first[1].replace("'attempt': 1", "'attempt': 2")
    assert jobs.notes == [first[0], again, first[2]]  # its step is recorded, and not called again
    assert jobs.state("queue", "m-1") == ("succeeded", 2)
    assert all(nightlatch.connect(jobs.store).look("queue", f"m-{number}") for number in range(3))
    assert not jobs.ledger.verify(jobs.ledger.heads()).breaks


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
    assert [(run.key, run.state) for run in jobs.ledger.runs()] == [("m-2", "succeeded")]
    assert jobs.notes and jobs.run("queue.run('b')").startswith("succeeded")
    assert [note for note in jobs.notes if note.startswith("double")] == ["double 1"], "what had failed"
    assert store.look("queue", "m-2")
    assert command(jobs.store, "prune", "--keep", "0s").returncode == 0
    assert not list(jobs.ledger.runs()) and not jobs.ledger.verify(jobs.ledger.heads()).breaks


def test_what_a_killed_process_left_is_begun_again(jobs):
    assert jobs.run("dying.run('a')").startswith("failed 137")
    assert jobs.state("dying", "m") == ("failed", 1)
    assert jobs.run("dying.run('b')").startswith("failed 137")
    assert jobs.state("dying", "m") == ("failed", 2)
    assert not jobs.ledger.verify().breaks


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
    assert jobs.state("slow", "m") == ("succeeded", 1)


def test_what_failed_is_handled_again_in_the_same_run(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("twice.run('a')").startswith("succeeded")
    assert jobs.notes[-2:] == ["failed cannot be sent", "{'key': 'm', 'attempt': 2, 'result': 2}"]
    assert jobs.state("twice", "m") == ("succeeded", 2)


def test_a_doubt_waits_for_a_person(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("doubtful.run('a')").startswith("succeeded")
    assert jobs.state("doubtful", "m") == ("needs-attention", 1)
    assert jobs.run("doubtful.run('b')").startswith("succeeded")
    first, second = jobs.notes
    assert first == "nobody knows" and "nightlatch resolve" in second
    assert jobs.state("doubtful", "m") == ("needs-attention", 1)


def test_a_run_by_hand_does_not_go_on_with_a_run_inside_another(tmp_path, sqlite_url):
    jobs = Jobs(tmp_path, sqlite_url)
    jobs.run("queue.run('a', fails=[2])")
    newest = jobs.ledger.newest("queue")
    assert newest and newest.key == "a"


STEP = ("0" * 32, "one", "done", 1, "1", "")


def begun(inside: Inside, key: str, holder: Holder) -> InnerRun:
    run = inside.begin(key, holder)
    assert isinstance(run, InnerRun)
    return run


def test_several_are_begun_and_ended_in_one_commit(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first, second, third = (begun(inside, f"m-{number}", holder) for number in (1, 2, 3))
    inside.commit([first.beginning([STEP]), second.beginning([STEP, STEP])])
    ends = [one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP]) for one in (first, third)]
    inside.commit([*ends, second.ending("failed", reason="no", elapsed=1.0)])
    runs = [book.find("queue", f"m-{number}") for number in (1, 2, 3)]
    assert [run and run.state for run in runs] == ["succeeded", "failed", "succeeded"]
    assert [len(list(book.step_log.entries(run.id))) for run in runs if run] == [2, 2, 1]
    assert not book.verify(book.heads()).breaks


def test_one_that_was_taken_over_keeps_none_of_the_others_from_ending(ledger_url):
    """Another run of the same job, with a newer token, took one of the keys: the rest is still this run's."""
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    old = book.inside(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    new = book.inside(book.seal(book.open_run("queue", "b").id, token=2, grant="2" * 32, holder=holder).run)
    taken, kept = (begun(old, key, holder) for key in ("m-1", "m-2"))
    old.commit([taken.beginning(), kept.beginning()])
    new.commit([begun(new, "m-1", holder).beginning()])
    with pytest.raises(StaleToken):
        old.commit([one.ending("succeeded", reason="", elapsed=1.0) for one in (kept, taken)])
    assert [(run.state, run.token) for key in ("m-1", "m-2") if (run := book.find("queue", key))] == [
        ("running", 2), ("running", 1),
    ]  # fmt: skip
    old.commit([kept.ending("succeeded", reason="", elapsed=1.0)])
    assert not book.verify(book.heads()).breaks


def test_a_holder_that_was_overtaken_begins_and_ends_nothing(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    old = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    left, also, unwritten = (begun(old, f"m-{number}", holder) for number in (1, 2, 3))
    old.commit([left.beginning([STEP]), also.beginning()])
    new = book.inside(book.seal(around.id, token=2, grant="2" * 32, holder=holder).run)
    for due in (unwritten.beginning([STEP]), also.ending("succeeded", reason="", elapsed=1.0)):
        with pytest.raises(StaleToken):
            old.commit([due])
    taken = begun(new, "m-1", holder)
    assert (taken.lost, taken.run.attempt) == (True, 2)
    new.commit([taken.beginning()])
    with pytest.raises(StaleToken):
        old.commit([left.ending("succeeded", reason="", elapsed=1.0)])
    with pytest.raises(StaleToken):
        left.append([STEP])
    assert book.find("queue", "m-3") is None
    new.commit([taken.ending("succeeded", reason="", elapsed=1.0)])
    ended = book.find("queue", "m-1")
    assert ended and (ended.state, ended.attempt, ended.parent) == ("succeeded", 2, around.id)
    assert len(list(book.step_log.entries(ended.id))) == 1
    assert [attempt.state for attempt in book.attempts(ended.id)] == ["lost", "succeeded"]
    assert not book.verify(book.heads()).breaks


def test_another_who_writes_on_the_jobs_chain_disturbs_nothing(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    book.note("queue", "seen", what="something")
    made = begun(inside, "m-1", holder)
    inside.commit([made.beginning()])
    made.append([STEP])
    book.note("queue", "seen", what="more")
    inside.commit([made.ending("failed", reason="no", elapsed=1.0)])
    found = book.find("queue", "m-1")
    assert found and (found.state, found.reason) == ("failed", "no")
    assert not book.verify(book.heads()).breaks


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_was_opened_by_hand_before_ours_was_written_is_the_one(ledger_url, written):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first, second = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    by_hand = book.open_run("queue", "m-1", command="by hand")
    if written:
        inside.commit([second.beginning(), first.beginning([STEP])])
        assert first.run.id == by_hand.id
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP]) for one in (second, first)])
    run = book.find("queue", "m-1")
    assert run and (run.id, run.state, run.attempt, run.command) == (by_hand.id, "succeeded", 1, "by hand")
    assert len(list(book.step_log.entries(run.id))) == 1 + written
    assert (other := book.find("queue", "m-2")) and other.state == "succeeded"
    assert not book.verify(book.heads()).breaks


def test_one_that_a_person_ended_before_ours_was_written_stays_so(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first = begun(inside, "m-1", holder)
    book.request_cancel(book.open_run("queue", "m-1").id, "ann")
    with pytest.raises(RunEnded, match="cancelled"):
        inside.commit([first.ending("succeeded", reason="", elapsed=1.0)])
    assert (run := book.find("queue", "m-1")) and run.state == "cancelled"


@pytest.mark.parametrize(("steps", "words"), [(0, 0), (2, 0), (2, 9)])
def test_a_key_that_somebody_starts_by_hand_meanwhile_is_still_handled_once(
    tmp_path, ledger_url, monkeypatch, steps, words
):
    monkeypatch.setenv("STORE", ledger_url)
    jobs = Jobs(tmp_path, ledger_url)
    told = jobs.run(f"by_hand.run('a', {steps}, {words})")
    assert told.startswith("succeeded"), told
    assert jobs.notes == ["opened 0", *(f"double {number}" for number in range(steps)), "worked"]
    assert jobs.state("by_hand", "m") == ("succeeded", 1)
    done = nightlatch.connect(ledger_url).look("by_hand", "m")
    assert done and (run := jobs.ledger.find("by_hand", "m")) and done.value == run.id
    assert len(list(jobs.ledger.step_log.entries(run.id))) == steps + 1
    assert not jobs.ledger.verify(jobs.ledger.heads()).breaks


def test_an_end_waits_for_the_jobs_chain_with_no_run_in_its_hands(postgres_url):
    """As a person's verb takes the chain and then a run: who took them the other way round would be in its way, and it
    in theirs, until the server looks for such (1 s)."""
    holder = identity.holder(pid=0)
    book, person, looking = (open_for(postgres_url) for _ in range(3))
    around = book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run
    inside = book.inside(around)
    one, new = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    inside.commit([one.beginning([STEP])])
    ends = [each.ending("succeeded", reason="", elapsed=1.0) for each in (one, new)]
    ending = Thread(target=inside.commit, args=(ends,))
    with person._tables.on_chain("queue") as chain:
        ending.start()
        until(lambda: looking._tables.read("SELECT 1 FROM pg_locks WHERE NOT granted"))
        for held in (one.run.id, around.id):
            assert chain("SELECT id FROM {prefix}run WHERE id = :id FOR UPDATE NOWAIT", id=held)
        chain.append("noted")
    ending.join()
    assert [(run := book.find("queue", key)) and run.state for key in ("m-1", "m-2")] == ["succeeded"] * 2
    assert not book.verify(book.heads()).breaks


class LosesReplies:
    """The next commit lands; its reply is lost, and so is the look after it."""

    def __init__(self, book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        database = book._tables.database
        write, read = database.guarded, database.read

        def commits(*args: Any, **kwargs: Any) -> Any:
            write(*args, **kwargs)
            monkeypatch.setattr(database, "guarded", write)
            monkeypatch.setattr(database, "read", looks)
            raise StoreUnreachable("the reply was lost")

        def looks(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(database, "read", read)
            raise StoreUnreachable("still down")

        monkeypatch.setattr(database, "guarded", commits)


@pytest.mark.parametrize("known", [False, True])
def test_a_beginning_whose_reply_was_lost_is_not_written_twice_and_hides_nothing(ledger_url, monkeypatch, known):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    if known:
        book.open_run("queue", "m-1")
    inside = book.inside(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one, other = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    LosesReplies(book, monkeypatch)
    with pytest.raises(StoreUnreachable):
        inside.commit([one.beginning()])
    inside.commit([one.beginning([STEP]), other.ending("succeeded", reason="", elapsed=1.0)])
    one.append([STEP])
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP])])
    assert [run.state for key in ("m-1", "m-2") if (run := book.find("queue", key))] == ["succeeded"] * 2
    assert len(list(book.step_log.entries(one.run.id))) == 3
    assert not book.verify(book.heads()).breaks


def test_a_step_in_doubt_keeps_nothing_from_ending(ledger_url, monkeypatch):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    inside = book.inside(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(inside, "m-1", holder)
    inside.commit([one.beginning()])
    LosesReplies(book, monkeypatch)
    with pytest.raises(StoreUnreachable):
        one.append([STEP])
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP])])
    assert len(list(book.step_log.entries(one.run.id))) == 2
    assert not book.verify(book.heads()).breaks


def test_steps_need_the_run_around_too(ledger_url):
    """Sealed by the next holder, who has not come to what is inside: nothing of the old one is recorded there."""
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    old = book.inside(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(old, "m-1", holder)
    old.commit([one.beginning([STEP])])
    book.seal(around.id, token=2, grant="2" * 32, holder=holder)
    with pytest.raises(StaleToken):
        one.append([STEP])
    assert len(list(book.step_log.entries(one.run.id))) == 1


def test_what_a_person_cancelled_is_not_begun(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    asked = book.open_run("queue", "m-1")
    inside = book.inside(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(inside, "m-1", holder)
    book.request_cancel(asked.id, "ann")
    with pytest.raises(RunEnded, match="cancelled"):
        inside.commit([one.beginning([STEP])])
    found = book.find("queue", "m-1")
    assert found and found.state == "cancelled"
