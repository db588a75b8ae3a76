"""The ledger's verbs, on both databases."""

from __future__ import annotations

import time

import pytest

from nightlatch import ledger
from nightlatch.core.model import Holder
from nightlatch.database.guarded import Table
from nightlatch.errors import RunEnded, StaleToken, StoreUnreachable, UsageError
from nightlatch.ledger import deciding, sealing
from nightlatch.ledger.chain import link, pack, unpack
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.writer import Writer

ME = Holder(incarnation="i", user="ann", host="here")
OTHER = Holder(incarnation="j", user="bob", host="there", pid=7)


@pytest.fixture
def book(ledger_url: str) -> Ledger:
    return ledger.open_for(ledger_url)


def begun(book: Ledger, token: int = 1, *, key: str = "k", job: str = "job", holder: Holder = ME) -> Writer:
    run = book.open_run(job, key, command="true", host="here")
    return book.seal(run.id, token=token, grant=f"grant-{token}", holder=holder)


# ── opening ──


def test_a_key_comes_back_to_its_run(book):
    run = book.open_run("job", "k", slot="2026-01-01T02:00", command="make", definition="d1", host="here")
    assert (run.state, run.attempt, run.slot, run.command, run.definition) == (
        "pending", 0, "2026-01-01T02:00", "make", "d1",
    )  # fmt: skip
    assert book.open_run("job", "k") == run == book.find("job", "k") == book.run(run.id) == book.run(run.id[:6])
    assert book.open_run("job", "other").id != run.id != book.open_run("another", "k").id
    assert book.find("job", "unknown") is None and book.run("unknown") is None


@pytest.mark.parametrize("state", ["failed", "timed-out", "stalled", "over-budget", "cancelled", "lost"])
def test_a_run_that_ended_without_success_is_opened_for_its_next_attempt(book, state):
    writer = begun(book)
    writer.finish(state, exit_code=3)
    again = book.open_run("job", "k")
    assert (again.id, again.state, again.attempt) == (writer.run.id, "pending", 1)
    assert book.seal(again.id, token=2, grant="g", holder=ME).run.attempt == 2


def test_a_run_that_succeeded_is_opened_again_only_when_asked_for(book):
    begun(book).finish("succeeded", exit_code=0)
    assert book.open_run("job", "k").state == "succeeded"
    assert book.open_run("job", "k", again=True).state == "pending"


@pytest.mark.parametrize("state", ["in-doubt", "needs-attention"])
def test_a_run_that_waits_for_a_person_is_not_opened_again(book, state):
    begun(book).finish(state, reason="who knows")
    assert book.open_run("job", "k", again=True).state == state


def test_a_job_needs_a_name_that_every_store_can_hold(book):
    with pytest.raises(UsageError):
        book.open_run("no such\nname", "k")


# ── sealing ──


def test_the_seal_begins_an_attempt(book):
    writer = begun(book, 5)
    run = book.run(writer.run.id)
    assert run == writer.run
    assert (run.state, run.attempt, run.token, run.grant, run.holder) == ("running", 1, 5, "grant-5", ME)
    (attempt,) = book.attempts(run.id)
    assert (attempt.attempt, attempt.token, attempt.state, attempt.ended) == (1, 5, "running", None)
    assert not writer.lost


def test_an_attempt_that_was_left_behind_is_marked_lost(book):
    begun(book, 1, holder=OTHER)
    writer = begun(book, 2)
    assert writer.lost and writer.run.attempt == 2
    first, second = book.attempts(writer.run.id)
    assert (first.state, first.holder, first.ended is not None) == ("lost", OTHER, True)
    assert (second.state, second.holder) == ("running", ME)


def test_an_attempt_that_was_left_behind_may_put_the_run_in_doubt(book):
    left = begun(book, 1)
    with pytest.raises(RunEnded, match="resolve") as refused:
        book.seal(left.run.id, token=2, grant="g", holder=ME, lost="doubt")
    assert refused.value.run.state == "in-doubt" == book.run(left.run.id).state
    assert [attempt.state for attempt in book.attempts(left.run.id)] == ["lost"]
    with pytest.raises(StaleToken):
        left.event("late")


def test_doubt_is_only_for_what_was_left_behind(book):
    run = book.open_run("job", "k")
    assert book.seal(run.id, token=1, grant="g", holder=ME, lost="doubt").run.state == "running"


def test_who_only_reaps_starts_no_attempt(book):
    left = begun(book, 1)
    assert (book.reap(left.run.id, token=2, grant="g").state, len(book.attempts(left.run.id))) == ("lost", 1)
    with pytest.raises(StaleToken):
        left.finish("succeeded")
    assert book.open_run("job", "k").state == "pending"


@pytest.mark.parametrize(("token", "grant"), [(4, "grant-4"), (5, "another")])
def test_the_seal_refuses_a_token_that_is_not_higher(book, token, grant):
    run = begun(book, 5, holder=OTHER).run
    with pytest.raises(StaleToken, match=r"bob@there.*stop this one") as refused:
        book.seal(run.id, token=token, grant=grant, holder=ME)
    assert refused.value.stands and refused.value.offered
    assert (refused.value.stands.token, refused.value.offered.token) == (5, token)
    assert book.run(run.id) == run


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "in-doubt", "needs-attention"])
def test_the_seal_refuses_a_run_that_is_not_open(book, state):
    run = begun(book).finish(state)
    with pytest.raises(RunEnded) as refused:
        book.seal(run.id, token=2, grant="g", holder=ME)
    assert refused.value.run == run == book.run(run.id)


def test_a_run_cancelled_between_the_look_and_the_seal_does_not_start(book):
    run = book.open_run("job", "k")
    book.request_cancel(run.id, "ann")
    with pytest.raises(RunEnded):
        book.seal(run.id, token=1, grant="g", holder=ME)


def test_sealing_again_after_a_lost_reply_begins_no_other_attempt(book):
    first = begun(book, 1)
    again = book.seal(first.run.id, token=1, grant="grant-1", holder=ME)
    assert again.run == first.run and not again.lost
    raised = book.seal(first.run.id, token=9, grant="grant-1", holder=ME)
    assert (raised.run.attempt, raised.run.token, len(book.attempts(first.run.id))) == (1, 9, 1)
    raised.event("goes on")
    with pytest.raises(StaleToken):
        first.event("with the token before the raise")


def test_an_edited_command_is_recorded_with_its_attempt(book):
    begun(book, 1).finish("failed")
    run = book.open_run("job", "k")
    writer = book.seal(run.id, token=2, grant="g", holder=ME, command="false", definition="d2")
    assert (writer.run.command, writer.run.definition) == ("false", "d2")
    assert [entry.facts.get("command") for entry in book.entries(run.id) if entry.kind == "started"] == [None, "false"]


def test_the_seal_misses_when_the_holder_before_wrote_after_the_look(book):
    """Otherwise the new attempt's entries would be chained to a head that is not the head any more."""
    before = begun(book, 1)
    seen = book.run(before.run.id)
    before.event("still here")
    assert sealing.take(book._tables, seen, 2, "g", ME, "", "", 1) is None
    assert book.run(before.run.id).token == 1 and book.verify().breaks == ()


# ── writing ──

STEP = Table("usage", dict.fromkeys(["run", "job"], "TEXT") | dict.fromkeys(
    ["seq", "at", "usd", "tokens", "calls", "units"], "BIGINT"))  # fmt: skip


def _together(writer: Writer) -> None:
    with writer.together():
        writer.event("one")
        writer.event("two")


VERBS = {
    "event": lambda writer: writer.event("said", text="late"),
    "progress": lambda writer: writer.progress(9, 10, "late"),
    "usage": lambda writer: writer.usage(usd=1),
    "record": lambda writer: writer.record("step-done", [(STEP, [(writer.run.id, "job", 77, 1, 1, 1, 1, 1)])]),
    "finish": lambda writer: writer.finish("succeeded"),
    "together": _together,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_writer_is_refused_by_each_verb_and_leaves_nothing(book, verb):
    stale, holder = begun(book, 1), begun(book, 2, holder=OTHER)
    before = (book.run(stale.run.id), list(book.entries(stale.run.id)), book.usage(), list(book.job_entries("job")))
    with pytest.raises(StaleToken, match=r"token 1.*token 2 by bob@there") as refused:
        VERBS[verb](stale)
    assert refused.value.exit_code == 73
    assert before == (
        book.run(stale.run.id), list(book.entries(stale.run.id)), book.usage(), list(book.job_entries("job")),
    )  # fmt: skip
    VERBS[verb](holder)
    assert book.verify().breaks == ()


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_recorded_for_a_run_that_was_finished(book, verb):
    writer = begun(book)
    ended = writer.finish("failed", exit_code=3, reason="broke")
    with pytest.raises(RunEnded):
        VERBS[verb](writer)
    assert book.run(ended.id) == ended


def test_two_writers_with_one_grant_are_told_apart(book):
    first = begun(book, 1)
    second = book.seal(first.run.id, token=1, grant="grant-1", holder=ME)
    second.event("one")
    with pytest.raises(StaleToken, match="one writer"):
        first.event("two")


def test_what_is_written_can_be_read(book):
    writer = begun(book)
    facts = {
        "text": "two\nlines\\n and a \\ = sign",
        "nul": "a\0b",
        "half": "\udc80",
        "yes": True,
        "none": None,
        "é": 1.5,
    }
    writer.event("said", **facts)
    writer.progress(3, 10, "third of ten")
    run = writer.finish("failed", exit_code=3, reason="broke", elapsed=2.5, traceback="line 1\nline 2")
    assert (run.done, run.total, run.message) == (3, 10, "third of ten")
    assert (run.state, run.exit_code, run.reason, run.elapsed) == ("failed", 3, "broke", 2.5)
    entries = list(book.entries(run.id))
    assert [(entry.seq, entry.kind) for entry in entries] == [
        (1, "opened"), (2, "started"), (3, "said"), (4, "progress"), (5, "ended"),
    ]  # fmt: skip
    assert entries[2].facts == {
        "text": "two\nlines\\n and a \\ = sign", "nul": "a\\0b", "half": "\\udc80", "yes": "true", "é": "1.5",
    }  # fmt: skip
    assert entries[4].facts["traceback"] == "line 1\nline 2"
    assert (run.seq, run.head) == (5, entries[4].hash)
    assert run.anchor == book.heads()[0]
    (attempt,) = book.attempts(run.id)
    assert (attempt.state, attempt.exit_code, attempt.reason, attempt.elapsed) == ("failed", 3, "broke", 2.5)


def test_an_attempt_that_will_be_followed_leaves_the_run_waiting(book):
    due = time.time() + 60
    run = begun(book, 1).finish("failed", exit_code=3, again_at=due)
    assert (run.state, round(run.due or 0, 3)) == ("waiting", round(due, 3))
    assert book.attempts(run.id)[0].state == "failed"
    assert book.open_run("job", "k").state == "waiting"
    assert book.seal(run.id, token=2, grant="g", holder=ME).run.attempt == 2


def test_an_attempt_cannot_end_as_something_that_is_no_end(book):
    writer = begun(book)
    for state in ("running", "pending", "waiting", "done"):
        with pytest.raises(UsageError):
            writer.finish(state)


def test_a_row_that_offends_a_constraint_leaves_nothing_and_the_writer_goes_on(book):
    writer = begun(book)
    row = (writer.run.id, "job", 77, 1, 1, 1, 1, 1)
    writer.record("step-done", [(STEP, [row])])
    with pytest.raises(StoreUnreachable):
        writer.record("step-done", [(STEP, [row])])
    writer.event("goes on")
    assert [entry.kind for entry in book.entries(writer.run.id)][2:] == ["step-done", "goes on"]


# ── usage ──


def test_usage_is_exact_and_never_understated(book):
    writer = begun(book)
    for _ in range(10):
        used = writer.usage(usd=0.1, tokens=1.2, calls=1, units=0.25)
    assert (used.usd, used.tokens, used.calls, used.units) == (1.0, 20, 10, 2.5)
    assert used == book.run(writer.run.id).usage
    assert book.spent("job", "usd", 0) == 1.0 and book.spent(None, "tokens", 0) == 20


def test_usage_goes_on_over_attempts(book):
    first = begun(book, 1)
    first.usage(usd=1)
    first.finish("failed")
    assert begun(book, 2).usage(usd=0.5).usd == 1.5


@pytest.mark.parametrize("amounts", [{"usd": -1}, {"usd": float("nan")}, {"usd": float("inf")}, {"euro": 1}])
def test_an_amount_that_cannot_be_is_refused(book, amounts):
    with pytest.raises(UsageError):
        begun(book).usage(**amounts)


def test_usage_by_job_and_day_and_without_the_run_that_asks(book):
    one, two = begun(book, key="1"), begun(book, key="2", job="other")
    one.usage(usd=1, tokens=5)
    two.usage(usd=2)
    today = time.strftime("%Y-%m-%d")
    assert [(used.job, used.day, used.usd) for used in book.usage(by_day=True)] == [
        ("job", today, 1.0), ("other", today, 2.0),
    ]  # fmt: skip
    assert [(used.job, used.day, used.usd, used.tokens) for used in book.usage("job")] == [("job", "", 1.0, 5)]
    assert book.spent(None, "usd", 0, besides=two.run.id) == 1.0
    assert book.spent("job", "usd", time.time() + 5) == 0 and book.usage(since=time.time() + 5) == []
    with pytest.raises(UsageError):
        book.spent("job", "euro", 0)


# ── people ──


def test_a_running_run_hears_that_its_end_is_asked_for_and_goes_on_writing(book):
    writer = begun(book)
    assert writer.cancel_requested() is None
    assert book.request_cancel(writer.run.id, "ann").state == "running"
    assert writer.cancel_requested() == "ann"
    assert book.request_cancel(writer.run.id, "bob").cancel == "ann"
    writer.event("tidying up")
    assert writer.finish("cancelled").state == "cancelled"
    again = book.seal(book.open_run("job", "k").id, token=2, grant="g", holder=ME)
    assert again.cancel_requested() is None


def test_what_nobody_has_begun_is_cancelled_at_once(book):
    run = book.open_run("job", "k")
    cancelled = book.request_cancel(run.id, "ann")
    assert (cancelled.state, cancelled.reason, cancelled.ended is not None) == ("cancelled", "cancelled by ann", True)
    with pytest.raises(RunEnded):
        book.request_cancel(run.id, "ann")


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
def test_a_person_resolves_what_is_in_doubt(book, outcome):
    run = begun(book).finish("in-doubt")
    with pytest.raises(RunEnded, match="resolve"):
        book.retry(run.id, "ann")
    with pytest.raises(RunEnded, match="resolve"):
        book.request_cancel(run.id, "ann")
    assert book.resolve(run.id, outcome, "ann").state == outcome
    with pytest.raises(RunEnded):
        book.resolve(run.id, outcome, "ann")
    assert list(book.job_entries("job"))[-1].facts["by"] == "ann"


def test_of_two_people_who_looked_at_the_same_the_second_is_not_heard(book):
    seen = begun(book).finish("in-doubt")
    book.resolve(seen.id, "failed", "ann")
    assert deciding.resolve(book._tables, seen, "succeeded", "bob") is None
    assert book.run(seen.id).state == "failed"
    assert [entry.facts.get("by") for entry in book.job_entries("job")] == [None, None, "ann"]


def test_only_known_outcomes_resolve(book):
    run = begun(book).finish("in-doubt")
    with pytest.raises(UsageError):
        book.resolve(run.id, "lost", "ann")
    with pytest.raises(UsageError):
        book.resolve("nosuchrun", "failed", "ann")


def test_a_person_wants_another_attempt(book):
    run = begun(book).finish("failed")
    assert book.retry(run.id, "ann").state == "pending" == book.retry(run.id, "ann").state
    writer = book.seal(run.id, token=2, grant="g", holder=ME)
    with pytest.raises(RunEnded, match="running"):
        book.retry(run.id, "ann")
    writer.finish("succeeded")
    with pytest.raises(RunEnded, match="--again"):
        book.retry(run.id, "ann")


def test_a_run_that_cannot_be_begun_waits_for_a_person(book):
    run = book.open_run("job", "k")
    assert book.attention(run.id, "a gate cannot be sealed", "here").state == "needs-attention"
    assert book.retry(run.id, "ann").state == "pending"
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    with pytest.raises(RunEnded):
        book.attention(writer.run.id, "late", "here")


def test_what_an_observer_sees_stands_on_the_jobs_chain(book):
    head = book.note("job", "refused", gate="file:out", token=3)
    (entry,) = book.job_entries("job")
    assert (entry.kind, entry.facts) == ("refused", {"gate": "file:out", "token": "3"})
    assert head == f"job:job:1:{entry.hash}" and book.verify([head]).compared == 1


def test_runs_are_listed_the_newest_change_first(book):
    for key in "abc":
        book.open_run("job", key)
        time.sleep(0.002)
    begun(book, key="a")
    begun(book, job="other", key="z").finish("failed")
    assert [run.key for run in book.runs()] == ["z", "a", "c", "b"]
    assert [run.key for run in book.runs(job="job", state="pending")] == ["c", "b"]
    assert [run.key for run in book.runs(limit=1)] == ["z"]
    assert [run.key for run in book.runs(since=book.find("job", "a").changed)] == ["z", "a"]


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


# ── the text ──


def test_the_hash_of_an_entry_is_frozen():
    """Heads are kept elsewhere for years: these bytes must never change."""
    body = pack({"done": 3, "message": "a\nb\\c", "yes": True})
    assert body == "done=3\nmessage=a\\nb\\\\c\nyes=true"
    assert unpack(body) == {"done": "3", "message": "a\nb\\c", "yes": "true"}
    hash_ = link("0" * 64, "0123456789ab", 7, 1_700_000_000_000, "progress", body)
    assert hash_ == "d3781d1e77e58f0dcd57efb75efdc74fcf72a405654ce2e9c64f5369fae9f46f"


def test_an_entry_has_a_kind_of_one_line(book):
    writer = begun(book)
    for kind in ("", "two\nlines"):
        with pytest.raises(UsageError):
            writer.event(kind)
