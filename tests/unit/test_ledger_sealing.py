"""A run is opened for its key, and sealed: from then on one attempt is its writer. On both databases."""

from __future__ import annotations

import pytest

from nightlatch.errors import RunEnded, StaleToken, UsageError
from nightlatch.ledger import sealing
from tests.support.ledgers import ME, OTHER, begun, first, rewritten, tamper


def test_a_key_comes_back_to_its_run(book):
    run = book.open_run("job", "k", slot="2026-01-01T02:00", command="make", definition="d1", host="here")
    assert (run.status, run.attempt, run.slot, run.command, run.definition) == (
        "pending", 0, "2026-01-01T02:00", "make", "d1",
    )  # fmt: skip
    assert book.open_run("job", "k") == run == book.find("job", "k") == book.run(run.id) == book.run(run.id[:6])
    assert book.open_run("job", "other").id != run.id != book.open_run("another", "k").id
    assert book.find("job", "unknown") is None and book.run("unknown") is None


@pytest.mark.parametrize("status", ["failed", "timed-out", "stalled", "over-budget", "cancelled", "lost"])
def test_a_run_that_ended_without_success_is_opened_for_its_next_attempt(book, status):
    writer = begun(book)
    writer.finish(status, exit_code=3)
    again = book.open_run("job", "k")
    assert (again.id, again.status, again.attempt) == (writer.run.id, "pending", 1)
    assert book.seal(again.id, token=2, grant="g", holder=ME).run.attempt == 2


def test_a_run_that_succeeded_is_opened_again_only_when_asked_for(book):
    begun(book).finish("succeeded", exit_code=0)
    assert book.open_run("job", "k").status == "succeeded"
    assert book.open_run("job", "k", again=True).status == "pending"


@pytest.mark.parametrize("status", ["in-doubt", "needs-attention"])
def test_a_run_that_waits_for_a_person_is_not_opened_again(book, status):
    begun(book).finish(status, reason="who knows")
    assert book.open_run("job", "k", again=True).status == status


def test_a_job_needs_a_name_that_every_store_can_hold(book):
    with pytest.raises(UsageError):
        book.open_run("no such\nname", "k")


def test_a_run_that_another_process_has_opened_since_the_look_is_found(book):
    run = book.open_run("job", "k", new=True)
    assert book.open_run("job", "k", new=True) == run
    assert [entry.kind for entry in book.journal.of_job("job")] == ["opened"]


# ── sealing ──


def test_a_run_that_has_changed_since_it_was_seen_is_judged_as_it_is(book):
    seen = book.open_run("job", "k")
    book.decisions.request_cancel(seen.id, "a person")
    with pytest.raises(RunEnded, match="cancelled"):
        book.seal(seen.id, token=1, grant="g", holder=ME, seen=seen)
    begun(book, 5)
    with pytest.raises(StaleToken):
        book.seal(seen.id, token=1, grant="g", holder=ME, seen=seen)


def test_a_run_that_is_as_it_was_seen_is_not_read_again(book, monkeypatch):
    seen = book.open_run("job", "k")
    monkeypatch.setattr(type(book), "run", None)
    assert book.seal(seen.id, token=1, grant="g", holder=ME, seen=seen).run.attempt == 1


def test_the_seal_begins_an_attempt(book):
    writer = begun(book, 5)
    run = book.run(writer.run.id)
    assert run == writer.run
    assert (run.status, run.attempt, run.token, run.grant, run.holder) == ("running", 1, 5, "grant-5", ME)
    (attempt,) = book.attempts(run.id)
    assert (attempt.attempt, attempt.token, attempt.status, attempt.ended) == (1, 5, "running", None)
    assert not writer.lost


def test_an_attempt_that_was_left_behind_is_marked_lost(book):
    begun(book, 1, holder=OTHER)
    writer = begun(book, 2)
    assert writer.lost and writer.run.attempt == 2
    first, second = book.attempts(writer.run.id)
    assert (first.status, first.holder, first.ended is not None) == ("lost", OTHER, True)
    assert (second.status, second.holder) == ("running", ME)


def test_an_attempt_that_was_taken_over_is_not_missing_on_its_jobs_chain(book):
    """A reader of the jobs' chains, as alerts are, would never hear of it."""
    left = begun(book, 1, holder=OTHER)
    left.usage(calls=2)
    writer = begun(book, 2)
    linked = list(book.journal.of_job("job"))[-1]
    (lost,) = (entry for entry in book.journal.of_run(writer.run.id) if entry.kind == "lost")
    assert linked.kind == "lost" and linked.facts == {
        "run": left.run.id, "attempt": "1", "token": "1", "holder": str(OTHER), "seq": str(lost.seq),
        "head": lost.hash,
    }  # fmt: skip
    assert writer.run.anchor == f"job:job:{linked.seq}:{linked.hash}" == book.journal.heads()[0]
    assert book.period_usage.of_job("job", "calls", "day") == 2
    assert not book.journal.verify(book.journal.heads()).breaks
    writer.finish("succeeded")
    assert not book.journal.verify(book.journal.heads()).breaks


def test_an_audit_names_a_lost_attempt_whose_entry_is_not_the_one_its_job_links_to(book):
    begun(book, 1, holder=OTHER)
    run = begun(book, 2).finish("succeeded")
    tamper(book, "UPDATE {prefix}journal SET body = :body WHERE chain = :run AND kind = 'lost'", run=run.id,
           body="attempt=1\ntoken=1\nholder=nobody")  # fmt: skip
    rewritten(book, run.id)
    (wrong,) = {found.what for found in book.journal.verify().breaks if found.chain == run.id}
    assert wrong == "is not what was written there: its job's chain has another hash"
    assert first(book.journal.verify()) == (run.id, 3)


def test_an_attempt_that_was_left_behind_may_put_the_run_in_doubt(book):
    left = begun(book, 1)
    with pytest.raises(RunEnded, match="resolve") as refused:
        book.seal(left.run.id, token=2, grant="g", holder=ME, lost="doubt")
    assert refused.value.run.status == "in-doubt" == book.run(left.run.id).status
    assert [attempt.status for attempt in book.attempts(left.run.id)] == ["lost"]
    with pytest.raises(StaleToken):
        left.event("said")


def test_doubt_is_only_for_what_was_left_behind(book):
    run = book.open_run("job", "k")
    assert book.seal(run.id, token=1, grant="g", holder=ME, lost="doubt").run.status == "running"


def test_who_only_reaps_starts_no_attempt(book):
    left = begun(book, 1)
    assert (book.reap(left.run.id, token=2, grant="g").status, len(book.attempts(left.run.id))) == ("lost", 1)
    with pytest.raises(StaleToken):
        left.finish("succeeded")
    assert book.open_run("job", "k").status == "pending"


@pytest.mark.parametrize(("token", "grant"), [(4, "grant-4"), (5, "another")])
def test_the_seal_refuses_a_token_that_is_not_higher(book, token, grant):
    run = begun(book, 5, holder=OTHER).run
    with pytest.raises(StaleToken, match=r"bob@there.*stop this one") as refused:
        book.seal(run.id, token=token, grant=grant, holder=ME)
    assert refused.value.current and refused.value.offered
    assert (refused.value.current.token, refused.value.offered.token) == (5, token)
    assert book.run(run.id) == run


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled", "in-doubt", "needs-attention"])
def test_the_seal_refuses_a_run_that_is_not_open(book, status):
    run = begun(book).finish(status)
    with pytest.raises(RunEnded) as refused:
        book.seal(run.id, token=2, grant="g", holder=ME)
    assert refused.value.run == run == book.run(run.id)


def test_a_run_cancelled_between_the_look_and_the_seal_does_not_start(book):
    run = book.open_run("job", "k")
    book.decisions.request_cancel(run.id, "ann")
    with pytest.raises(RunEnded):
        book.seal(run.id, token=1, grant="g", holder=ME)


def test_sealing_again_after_a_lost_reply_begins_no_other_attempt(book):
    first = begun(book, 1)
    again = book.seal(first.run.id, token=1, grant="grant-1", holder=ME)
    assert again.run == first.run and not again.lost
    raised = book.seal(first.run.id, token=9, grant="grant-1", holder=ME)
    assert (raised.run.attempt, raised.run.token, len(book.attempts(first.run.id))) == (1, 9, 1)
    raised.event("said")
    with pytest.raises(StaleToken):
        first.event("said")


def test_an_edited_command_is_recorded_with_its_attempt(book):
    begun(book, 1).finish("failed")
    run = book.open_run("job", "k")
    writer = book.seal(run.id, token=2, grant="g", holder=ME, command="false", definition="d2")
    assert (writer.run.command, writer.run.definition) == ("false", "d2")
    assert [entry.facts.get("command") for entry in book.journal.of_run(run.id) if entry.kind == "started"] == [
        None,
        "false",
    ]


def test_the_seal_misses_when_the_holder_before_wrote_after_the_look(book):
    """Otherwise the new attempt's entries would be chained to a head that is not the head any more."""
    before = begun(book, 1)
    seen = book.run(before.run.id)
    before.event("said")
    assert sealing.take(book._tables, seen, 2, "g", ME, "", "", 1) is None
    assert book.run(before.run.id).token == 1 and book.journal.verify().breaks == ()
