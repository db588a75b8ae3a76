"""What people ask the ledger: to end a run, to resolve it, to try it again, to list it. On both databases."""

from __future__ import annotations

import time

import pytest

from nightlatch.errors import RunEnded, UsageError
from nightlatch.ledger import changing, kinds
from tests.support.ledgers import ME, begun


def test_a_running_run_hears_that_its_end_is_asked_for_and_goes_on_writing(book):
    writer = begun(book)
    assert writer.cancel_requested() is None
    assert book.decisions.request_cancel(writer.run.id, "ann").status == "running"
    assert writer.cancel_requested() == "ann"
    assert book.decisions.request_cancel(writer.run.id, "bob").cancel == "ann"
    writer.event("said")
    assert writer.finish("cancelled").status == "cancelled"
    again = book.seal(book.open_run("job", "k").id, token=2, grant="g", holder=ME)
    assert again.cancel_requested() is None


def test_what_nobody_has_begun_is_cancelled_at_once(book):
    run = book.open_run("job", "k")
    cancelled = book.decisions.request_cancel(run.id, "ann")
    assert (cancelled.status, cancelled.reason, cancelled.ended is not None) == ("cancelled", "cancelled by ann", True)
    with pytest.raises(RunEnded):
        book.decisions.request_cancel(run.id, "ann")


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
def test_a_person_resolves_what_is_in_doubt(book, outcome):
    run = begun(book).finish("in-doubt")
    with pytest.raises(RunEnded, match="resolve"):
        book.decisions.retry(run.id, "ann")
    with pytest.raises(RunEnded, match="resolve"):
        book.decisions.request_cancel(run.id, "ann")
    assert book.decisions.resolve(run.id, outcome, "ann").status == outcome
    with pytest.raises(RunEnded):
        book.decisions.resolve(run.id, outcome, "ann")
    assert list(book.journal.of_job("job"))[-1].facts["by"] == "ann"


def test_of_two_people_who_looked_at_the_same_the_second_is_not_heard(book):
    seen = begun(book).finish("in-doubt")
    book.decisions.resolve(seen.id, "failed", "ann")
    assert changing.change(book._tables, seen, "succeeded", kinds.RESOLVED, by="bob") is None
    assert book.run(seen.id).status == "failed"
    assert [entry.facts.get("by") for entry in book.journal.of_job("job")] == [None, None, "ann"]


def test_only_known_outcomes_resolve(book):
    run = begun(book).finish("in-doubt")
    with pytest.raises(UsageError):
        book.decisions.resolve(run.id, "lost", "ann")
    with pytest.raises(UsageError):
        book.decisions.resolve("nosuchrun", "failed", "ann")


def test_a_person_wants_another_attempt(book):
    run = begun(book).finish("failed")
    assert book.decisions.retry(run.id, "ann").status == "pending" == book.decisions.retry(run.id, "ann").status
    writer = book.seal(run.id, token=2, grant="g", holder=ME)
    with pytest.raises(RunEnded, match="running"):
        book.decisions.retry(run.id, "ann")
    writer.finish("succeeded")
    with pytest.raises(RunEnded, match="--again"):
        book.decisions.retry(run.id, "ann")


def test_a_run_that_cannot_be_begun_waits_for_a_person(book):
    run = book.open_run("job", "k")
    assert book.decisions.attention(run.id, "a gate cannot be sealed", "here").status == "needs-attention"
    assert book.decisions.retry(run.id, "ann").status == "pending"
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    with pytest.raises(RunEnded):
        book.decisions.attention(writer.run.id, "late", "here")


def test_what_an_observer_sees_stands_on_the_jobs_chain(book):
    head = book.journal.note("job", "refused", what="file:out", token=3)
    (entry,) = book.journal.of_job("job")
    assert (entry.kind, entry.facts) == ("refused", {"what": "file:out", "token": "3"})
    assert head == f"job:job:1:{entry.hash}" and book.journal.verify([head]).compared == 1


def test_runs_are_listed_the_newest_change_first(book):
    for key in "abc":
        book.open_run("job", key)
        time.sleep(0.002)
    begun(book, key="a")
    time.sleep(0.002)
    begun(book, job="other", key="z").finish("failed")
    assert [run.key for run in book.history.runs()] == ["z", "a", "c", "b"]
    assert [run.key for run in book.history.runs(job="job", status="pending")] == ["c", "b"]
    assert [run.key for run in book.history.runs(limit=1)] == ["z"]
    assert [run.key for run in book.history.runs(since=book.find("job", "a").changed)] == ["z", "a"]


def test_a_beginning_that_several_runs_have_is_refused(book, monkeypatch):
    from nightlatch.ledger import opening

    ids = iter(["abcdefgh1111", "abcdefgh2222"])
    monkeypatch.setattr(opening, "new_id", lambda: next(ids))
    book.open_run("job", "1"), book.open_run("job", "2")
    assert book.run("abcdefgh1").key == "1"
    with pytest.raises(UsageError, match="several"):
        book.run("abcd")


def test_an_id_that_is_taken_is_not_used_again(book, monkeypatch):
    from nightlatch.ledger import opening

    ids = iter(["abcdefgh1111", "abcdefgh1111", "abcdefgh2222"])
    monkeypatch.setattr(opening, "new_id", lambda: next(ids))
    assert book.open_run("job", "1").id == "abcdefgh1111"
    assert book.open_run("job", "2").id == "abcdefgh2222"


def test_a_transition_that_no_rule_allows_is_refused_also_without_asserts(book):
    """An assert would not be there under python -O."""
    done = begun(book).finish("succeeded")
    with pytest.raises(ValueError, match="running cannot follow that"):
        changing.change(book._tables, done, "running", kinds.RETRIED, by="ann")
    assert book.run(done.id).status == "succeeded"
