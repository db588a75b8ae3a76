"""What an attempt writes to its run, entries and usage, and which attempt may. On both databases."""

from __future__ import annotations

import threading
import time

import pytest

from nightlatch.database.guarded import Table
from nightlatch.errors import RunEnded, StaleToken, StoreUnreachable, UsageError
from nightlatch.ledger import kinds
from nightlatch.ledger.history import _USED_SINCE
from nightlatch.ledger.records import ENTRY
from nightlatch.ledger.writer import Verb
from tests.support.ledgers import ME, OTHER, begun

STEP = Table("usage", dict.fromkeys(["run", "job"], "TEXT") | dict.fromkeys(
    ["seq", "at", "usd", "tokens", "calls", "units"], "BIGINT"))  # fmt: skip


VERBS = {
    "event": lambda writer: writer.event("said", text="late"),
    "progress": lambda writer: writer.progress(9, 10, "late"),
    "usage": lambda writer: writer.usage(usd=1),
    "record": lambda writer: writer.record("said", [(STEP, [(writer.run.id, "job", 77, 1, 1, 1, 1, 1)])]),
    "finish": lambda writer: writer.finish("succeeded"),
    "take": lambda writer: writer.take(Verb("one", {}), Verb("two", {})),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_writer_is_refused_by_each_verb_and_leaves_nothing(book, verb):
    stale, holder = begun(book, 1), begun(book, 2, holder=OTHER)
    before = (
        book.run(stale.run.id),
        list(book.journal.of_run(stale.run.id)),
        book.history.tallies(("job",)),
        list(book.journal.of_job("job")),
    )
    with pytest.raises(StaleToken, match=r"token 1.*token 2 by bob@there") as refused:
        VERBS[verb](stale)
    assert refused.value.exit_code == 73
    assert before == (
        book.run(stale.run.id), list(book.journal.of_run(stale.run.id)), book.history.tallies(("job",)), list(book.journal.of_job("job")),
    )  # fmt: skip
    VERBS[verb](holder)
    assert book.journal.verify().breaks == ()


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
    run = writer.finish("failed", exit_code=3, reason="broke", elapsed=2.5)
    assert (run.done, run.total, run.message) == (3, 10, "third of ten")
    assert (run.status, run.exit_code, run.reason, run.elapsed) == ("failed", 3, "broke", 2.5)
    entries = list(book.journal.of_run(run.id))
    assert [(entry.seq, entry.kind) for entry in entries] == [
        (1, "opened"), (2, "started"), (3, "said"), (4, "progress"), (5, "ended"),
    ]  # fmt: skip
    assert entries[2].facts == {
        "text": "two\nlines\\n and a \\ = sign", "nul": "a\\0b", "half": "\\udc80", "yes": "true", "é": "1.5",
    }  # fmt: skip
    assert (run.seq, run.head) == (5, entries[4].hash)
    assert run.anchor == book.journal.heads()[0]
    (attempt,) = book.attempts(run.id)
    assert (attempt.status, attempt.exit_code, attempt.reason, attempt.elapsed) == ("failed", 3, "broke", 2.5)


def test_an_attempt_that_will_be_followed_leaves_the_run_waiting(book):
    due = time.time() + 60
    run = begun(book, 1).finish("failed", exit_code=3, again_at=due)
    assert (run.status, round(run.due or 0, 3)) == ("waiting", round(due, 3))
    assert book.attempts(run.id)[0].status == "failed"
    assert book.open_run("job", "k").status == "waiting"
    assert book.seal(run.id, token=2, grant="g", holder=ME).run.attempt == 2


def test_an_attempt_cannot_end_as_something_that_is_no_end(book):
    writer = begun(book)
    for status in ("running", "pending", "waiting", "done"):
        with pytest.raises(UsageError):
            writer.finish(status)


def test_a_row_that_offends_a_constraint_leaves_nothing_and_the_writer_goes_on(book):
    writer = begun(book)
    row = (writer.run.id, "job", 77, 1, 1, 1, 1, 1)
    writer.record("said", [(STEP, [row])])
    with pytest.raises(StoreUnreachable):
        writer.record("said", [(STEP, [row])])
    writer.event("said")
    assert [entry.kind for entry in book.journal.of_run(writer.run.id)][2:] == ["said", "said"]


# ── usage ──


def test_usage_is_exact_and_never_understated(book):
    writer = begun(book)
    for _ in range(10):
        used = writer.usage(usd=0.1, tokens=1.2, calls=1, units=0.25)
    assert (used.usd, used.tokens, used.calls, used.units) == (1.0, 20, 10, 2.5)
    assert used == book.run(writer.run.id).usage
    assert [(used.amounts.usd, used.amounts.tokens) for used in book.history.tallies(("job",))] == [(1.0, 20)]


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
    assert [(used.job, used.day, used.amounts.usd) for used in book.history.tallies(("day", "job"))] == [
        ("job", today, 1.0), ("other", today, 2.0),
    ]  # fmt: skip
    found = [(used.job, used.day, used.amounts.usd, used.amounts.tokens) for used in book.history.tallies(("job",))]
    assert found == [("job", "", 1.0, 5), ("other", "", 2.0, 0)]
    assert book.history.tallies((), since=book.history.day(time.time() + 86400)) == []
    with pytest.raises(UsageError):
        book.period_usage.of_job("job", "euro", "day")


def test_what_happens_rarely_is_found_by_its_index_which_fills_no_temporary_table_for_an_entry(book):
    database = book._tables.database
    query = f"SELECT at FROM {database.prefix}journal WHERE at >= 5 AND {kinds.RARE} ORDER BY at DESC LIMIT 5"
    if book.many_machines:
        with database.transaction() as execute:
            execute("SET LOCAL enable_seqscan = off")  # an empty table is read whole
            plan = execute(f"EXPLAIN {query}")
    else:
        plan = database.read(f"EXPLAIN QUERY PLAN {query}")
        values = dict(zip(ENTRY.columns, ("c", 1, 1, "k", "", "h"), strict=True))
        steps = database.read(f"EXPLAIN {ENTRY.put.format(prefix='')}", **values)
        assert "IdxInsert" in {step[1] for step in steps} and "OpenEphemeral" not in {step[1] for step in steps}
    assert "journal_rare" in str(plan)


def test_the_newest_runs_of_all_are_in_order_and_no_index_is_written_for_them_alone(book):
    ended = [begun(book, key=str(number)) for number in range(4)]
    for writer, status in zip(ended, ("failed", "succeeded", "stalled", "failed"), strict=True):
        writer.finish(status)
        time.sleep(0.002)
    running = begun(book, key="running").run.id
    newest = [running, *(writer.run.id for writer in reversed(ended))]
    assert [run.id for run in book.history.runs()] == newest and [
        run.id for run in book.history.runs(limit=2)
    ] == newest[:2]
    assert book.history.used_since(0.0) == (0.0, 5)
    if not book.many_machines:
        database = book._tables.database
        sql = database.read("SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'run' AND sql <> ''")
        assert not [text for (text,) in sql if "(changed" in text]
        plan = database.read(f"EXPLAIN QUERY PLAN {book._tables.sql(_USED_SINCE)}", since=0, most=5)
        reads = [row[3] for row in plan if " run" in row[3]]
        assert reads and all("run_status_changed" in step for step in reads)


def test_on_sqlite_the_verbs_of_a_run_collect_no_rows_in_a_temporary_table(book):
    """RETURNING does that, and takes longer than the change itself."""
    if book.many_machines:
        return
    statements: list[str] = []
    book.open_run("job", "first")  # makes the job's chain
    book._tables.database._connect().set_trace_callback(statements.append)
    writer = begun(book)
    writer.event(kinds.PROGRESS, done=1)
    assert writer.usage(usd=1).usd == 1.0
    assert writer.finish("succeeded").usage.usd == 1.0
    assert len(statements) > 20 and not [sql for sql in statements if "RETURNING" in sql]


def test_a_chain_that_two_processes_make_at_once_has_one_beginning(book):
    together = [threading.Thread(target=book.open_run, args=("job", str(key))) for key in range(6)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert [entry.seq for entry in book.journal.page("job:job")] == [6, 5, 4, 3, 2, 1]
    assert not book.journal.verify(book.journal.heads()).breaks


def test_a_run_that_another_process_has_just_opened_is_not_opened_again_and_leaves_no_link(book, monkeypatch):
    first = book.open_run("job", "key")
    found = iter([None, first])
    monkeypatch.setattr("nightlatch.ledger.opening.find", lambda *_: next(found))
    assert book.open_run("job", "key") == first
    assert len(book.journal.page("job:job")) == 1 and not book.journal.verify(book.journal.heads()).breaks
