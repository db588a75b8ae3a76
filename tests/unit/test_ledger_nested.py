"""Runs inside a run, in the ledger: begun, checkpointed and ended many at a time, behind the fence of the run around."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from nightlatch.core.model import Holder
from nightlatch.errors import RunEnded, StaleToken, StoreUnreachable
from nightlatch.ledger import open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.nested import NestedLedger, NestedRun
from nightlatch.system import identity
from tests.support.programs import until

STEP = ("0" * 32, "one", "done", 1, "1", "")


def begun(inside: NestedLedger, key: str, holder: Holder) -> NestedRun:
    run = inside.begin(key, holder)
    assert isinstance(run, NestedRun)
    return run


def test_several_are_begun_and_ended_in_one_commit(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first, second, third = (begun(inside, f"m-{number}", holder) for number in (1, 2, 3))
    inside.commit([first.beginning([STEP]), second.beginning([STEP, STEP])])
    ends = [one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP]) for one in (first, third)]
    inside.commit([*ends, second.ending("failed", reason="no", elapsed=1.0)])
    runs = [book.find("queue", f"m-{number}") for number in (1, 2, 3)]
    assert [run and run.status for run in runs] == ["succeeded", "failed", "succeeded"]
    assert [len(list(book.step_log.entries(run.id))) for run in runs if run] == [2, 2, 1]
    assert not book.journal.verify(book.journal.heads()).breaks


def test_one_that_was_taken_over_keeps_none_of_the_others_from_ending(ledger_url):
    """Another run of the same job, with a newer token, took one of the keys: the rest is still this run's."""
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    old = book.nested_runs(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    new = book.nested_runs(book.seal(book.open_run("queue", "b").id, token=2, grant="2" * 32, holder=holder).run)
    taken, kept = (begun(old, key, holder) for key in ("m-1", "m-2"))
    old.commit([taken.beginning(), kept.beginning()])
    new.commit([begun(new, "m-1", holder).beginning()])
    with pytest.raises(StaleToken):
        old.commit([one.ending("succeeded", reason="", elapsed=1.0) for one in (kept, taken)])
    assert [(run.status, run.token) for key in ("m-1", "m-2") if (run := book.find("queue", key))] == [
        ("running", 2), ("running", 1),
    ]  # fmt: skip
    old.commit([kept.ending("succeeded", reason="", elapsed=1.0)])
    assert not book.journal.verify(book.journal.heads()).breaks


def test_a_holder_that_was_overtaken_begins_and_ends_nothing(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    old = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    left, also, unwritten = (begun(old, f"m-{number}", holder) for number in (1, 2, 3))
    old.commit([left.beginning([STEP]), also.beginning()])
    new = book.nested_runs(book.seal(around.id, token=2, grant="2" * 32, holder=holder).run)
    for due in (unwritten.beginning([STEP]), also.ending("succeeded", reason="", elapsed=1.0)):
        with pytest.raises(StaleToken):
            old.commit([due])
    taken = begun(new, "m-1", holder)
    assert (taken.lost, taken.run.attempt) == (True, 2)
    new.commit([taken.beginning()])
    lost = list(book.journal.of_job("queue"))[-1]
    assert (lost.kind, lost.facts["run"], lost.facts["attempt"]) == ("lost", taken.run.id, "1")
    with pytest.raises(StaleToken):
        old.commit([left.ending("succeeded", reason="", elapsed=1.0)])
    with pytest.raises(StaleToken):
        left.append([STEP])
    assert book.find("queue", "m-3") is None
    new.commit([taken.ending("succeeded", reason="", elapsed=1.0)])
    ended = book.find("queue", "m-1")
    assert ended and (ended.status, ended.attempt, ended.parent) == ("succeeded", 2, around.id)
    assert len(list(book.step_log.entries(ended.id))) == 1
    assert [attempt.status for attempt in book.attempts(ended.id)] == ["lost", "succeeded"]
    assert not book.journal.verify(book.journal.heads()).breaks


def test_another_who_writes_on_the_jobs_chain_disturbs_nothing(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    book.journal.note("queue", "said", what="something")
    made = begun(inside, "m-1", holder)
    inside.commit([made.beginning()])
    made.append([STEP])
    book.journal.note("queue", "said", what="more")
    inside.commit([made.ending("failed", reason="no", elapsed=1.0)])
    found = book.find("queue", "m-1")
    assert found and (found.status, found.reason) == ("failed", "no")
    assert not book.journal.verify(book.journal.heads()).breaks


@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_was_opened_by_hand_before_ours_was_written_is_the_one(ledger_url, written):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first, second = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    by_hand = book.open_run("queue", "m-1", command="by hand")
    if written:
        inside.commit([second.beginning(), first.beginning([STEP])])
        assert first.run.id == by_hand.id
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP]) for one in (second, first)])
    run = book.find("queue", "m-1")
    assert run and (run.id, run.status, run.attempt, run.command) == (by_hand.id, "succeeded", 1, "by hand")
    assert len(list(book.step_log.entries(run.id))) == 1 + written
    assert (other := book.find("queue", "m-2")) and other.status == "succeeded"
    assert not book.journal.verify(book.journal.heads()).breaks


def test_one_that_a_person_ended_before_ours_was_written_stays_so(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    inside = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    first = begun(inside, "m-1", holder)
    book.decisions.request_cancel(book.open_run("queue", "m-1").id, "ann")
    with pytest.raises(RunEnded, match="cancelled"):
        inside.commit([first.ending("succeeded", reason="", elapsed=1.0)])
    assert (run := book.find("queue", "m-1")) and run.status == "cancelled"


def test_an_end_waits_for_the_jobs_chain_with_no_run_in_its_hands(postgres_url):
    """A person's command locks the chain and then a run. Locked the other way round, each would wait for the other
    until the server detects the deadlock (1 s)."""
    holder = identity.holder(pid=0)
    book, person, looking = (open_for(postgres_url) for _ in range(3))
    around = book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run
    inside = book.nested_runs(around)
    one, new = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    inside.commit([one.beginning([STEP])])
    ends = [each.ending("succeeded", reason="", elapsed=1.0) for each in (one, new)]
    ending = Thread(target=inside.commit, args=(ends,))
    with person._tables.on_chain("queue") as chain:
        ending.start()
        until(lambda: looking._tables.read("SELECT 1 FROM pg_locks WHERE NOT granted"))
        for held in (one.run.id, around.id):
            assert chain("SELECT id FROM {prefix}run WHERE id = :id FOR UPDATE NOWAIT", id=held)
        chain.append("said")
    ending.join()
    assert [(run := book.find("queue", key)) and run.status for key in ("m-1", "m-2")] == ["succeeded"] * 2
    assert not book.journal.verify(book.journal.heads()).breaks


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
    inside = book.nested_runs(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one, other = (begun(inside, key, holder) for key in ("m-1", "m-2"))
    LosesReplies(book, monkeypatch)
    with pytest.raises(StoreUnreachable):
        inside.commit([one.beginning()])
    inside.commit([one.beginning([STEP]), other.ending("succeeded", reason="", elapsed=1.0)])
    one.append([STEP])
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP])])
    assert [run.status for key in ("m-1", "m-2") if (run := book.find("queue", key))] == ["succeeded"] * 2
    assert len(list(book.step_log.entries(one.run.id))) == 3
    assert not book.journal.verify(book.journal.heads()).breaks


def test_a_step_in_doubt_keeps_nothing_from_ending(ledger_url, monkeypatch):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    inside = book.nested_runs(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(inside, "m-1", holder)
    inside.commit([one.beginning()])
    LosesReplies(book, monkeypatch)
    with pytest.raises(StoreUnreachable):
        one.append([STEP])
    inside.commit([one.ending("succeeded", reason="", elapsed=1.0, steps=[STEP])])
    assert len(list(book.step_log.entries(one.run.id))) == 2
    assert not book.journal.verify(book.journal.heads()).breaks


def test_steps_need_the_run_around_too(ledger_url):
    """The next holder has sealed the outer run and not yet the nested ones: nothing of the old one is recorded there."""
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    around = book.open_run("queue", "a")
    old = book.nested_runs(book.seal(around.id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(old, "m-1", holder)
    old.commit([one.beginning([STEP])])
    book.seal(around.id, token=2, grant="2" * 32, holder=holder)
    with pytest.raises(StaleToken):
        one.append([STEP])
    assert len(list(book.step_log.entries(one.run.id))) == 1


def test_what_a_person_cancelled_is_not_begun(ledger_url):
    book, holder = open_for(ledger_url), identity.holder(pid=0)
    asked = book.open_run("queue", "m-1")
    inside = book.nested_runs(book.seal(book.open_run("queue", "a").id, token=1, grant="1" * 32, holder=holder).run)
    one = begun(inside, "m-1", holder)
    book.decisions.request_cancel(asked.id, "ann")
    with pytest.raises(RunEnded, match="cancelled"):
        inside.commit([one.beginning([STEP])])
    found = book.find("queue", "m-1")
    assert found and found.status == "cancelled"
