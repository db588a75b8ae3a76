"""Whatever is done to the journal behind its back is found. On both databases."""

from __future__ import annotations

import pytest

from nightlatch.errors import UsageError
from nightlatch.ledger.chain import link
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from tests.support.ledgers import CHAIN, ME, first, night, rewritten, tamper


def test_what_nobody_touched_is_whole(book):
    night(book, "a"), night(book, "b", job="other"), night(book, "c", ends=False)
    verdict = book.journal.verify(book.journal.heads())
    assert (verdict.breaks, verdict.entries, verdict.chains, verdict.compared) == ((), 8 + 8 + 7 + 3 + 2, 5, 2)


def test_an_empty_journal_is_whole(book):
    assert book.journal.verify().breaks == ()


@pytest.mark.parametrize("column", ["body", "kind"])
def test_a_changed_entry_is_named(book, column):
    run = night(book)
    night(book, "another")
    tamper(book, f"UPDATE {{prefix}}journal SET {column} = 'number=9' WHERE chain = :run AND seq = 4", run=run.id)
    verdict = book.journal.verify()
    assert [(found.chain, found.seq) for found in verdict.breaks] == [(run.id, 4)]
    assert "changed" in str(verdict.breaks[0])


def test_a_changed_time_is_named(book):
    run = night(book)
    tamper(book, "UPDATE {prefix}journal SET at = at - 60000 WHERE chain = :run AND seq = 5", run=run.id)
    assert first(book.journal.verify()) == (run.id, 5)


def test_a_changed_entry_with_a_hash_that_fits_breaks_the_next_one(book):
    run = night(book)
    third, fourth = list(book.journal.of_run(run.id))[2:4]
    hash_ = link(third.hash, run.id, 4, round(fourth.at * 1000), "said", "number=9")
    tamper(book, "UPDATE {prefix}journal SET body = 'number=9', hash = :hash WHERE chain = :run AND seq = 4",
           run=run.id, hash=hash_)  # fmt: skip
    assert first(book.journal.verify()) == (run.id, 5)


def test_an_entry_removed_from_the_middle_is_named(book):
    run = night(book)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run AND seq = 4", run=run.id)
    assert first(book.journal.verify()) == (run.id, 4)
    tamper(book, "UPDATE {prefix}journal SET seq = seq - 1 WHERE chain = :run AND seq > 4", run=run.id)
    assert first(book.journal.verify()) == (run.id, 4)


@pytest.mark.parametrize("ends", [True, False])
def test_a_missing_tail_is_named(book, ends):
    run = night(book, ends=ends)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run AND seq > 5", run=run.id)
    assert first(book.journal.verify()) == (run.id, 6)


def test_entries_in_another_order_are_named(book):
    run = night(book)
    for old, new in ((4, 100), (5, 4), (100, 5)):
        tamper(book, "UPDATE {prefix}journal SET seq = :new WHERE chain = :run AND seq = :old", run=run.id, old=old,
               new=new)  # fmt: skip
    assert first(book.journal.verify()) == (run.id, 4)


def test_an_entry_of_another_run_does_not_fit(book):
    one, two = night(book, "1"), night(book, "2")
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run AND seq = 4", run=one.id)
    tamper(book, "UPDATE {prefix}journal SET chain = :one WHERE chain = :two AND seq = 4", one=one.id, two=two.id)
    assert {(found.chain, found.seq) for found in book.journal.verify().breaks} == {(one.id, 4), (two.id, 4)}


def test_an_entry_that_no_writer_wrote_is_named(book):
    run = night(book)
    hash_ = link(run.head, run.id, 9, 1, "said", "forged")
    tamper(book, "INSERT INTO {prefix}journal VALUES (:run, 9, 1, 'said', 'forged', :hash)", run=run.id, hash=hash_)
    assert first(book.journal.verify()) == (run.id, 9)


def test_a_rewritten_run_is_found_by_its_jobs_chain(book):
    run = night(book)
    tamper(book, "UPDATE {prefix}journal SET body = 'number=9' WHERE chain = :run AND seq = 4", run=run.id)
    rewritten(book, run.id)
    verdict = book.journal.verify()
    assert first(verdict) == (run.id, 8) and "its job's chain" in str(verdict.breaks[0])


def test_a_shortened_run_is_found_by_its_jobs_chain(book):
    run = night(book)
    seventh = list(book.journal.of_run(run.id))[6]
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run AND seq = 8", run=run.id)
    tamper(book, "UPDATE {prefix}run SET seq = 7, head = :head WHERE id = :run", run=run.id, head=seventh.hash)
    assert first(book.journal.verify()) == (run.id, 8)


@pytest.mark.parametrize("table", ["journal", "run", "both"])
def test_a_run_that_was_removed_is_named(book, table):
    run = night(book)
    night(book, "another")
    if table != "run":
        tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run", run=run.id)
    if table != "journal":
        tamper(book, "DELETE FROM {prefix}run WHERE id = :run", run=run.id)
    assert [found.chain for found in book.journal.verify().breaks] == [run.id]


def test_a_job_whose_chain_was_removed_is_named(book):
    night(book)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :chain", chain=CHAIN)
    assert first(book.journal.verify())[0] == "job:job"
    tamper(book, "DELETE FROM {prefix}chain WHERE name = :chain", chain=CHAIN)
    assert "not linked" in str(book.journal.verify().breaks[0])


def test_a_journal_rewritten_as_a_whole_is_found_only_by_a_head_kept_elsewhere(book):
    run, _ = night(book, "1"), night(book, "2")
    kept = book.journal.heads()
    (log_line,) = [run.anchor]
    tamper(book, "UPDATE {prefix}journal SET body = 'number=9' WHERE chain = :run AND seq = 4", run=run.id)
    rewritten(book, run.id)
    forged = book.run(run.id).head
    for entry in book.journal.of_job("job"):
        if entry.facts.get("head") == run.head:
            body = "\n".join(f"{k}={forged if k == 'head' else v}" for k, v in entry.facts.items())
            sql = "UPDATE {prefix}journal SET body = :body WHERE chain = :chain AND seq = :seq"
            tamper(book, sql, body=body, chain=CHAIN, seq=entry.seq)
    rewritten(book, "job:job")
    assert book.journal.verify().breaks == ()
    for head in (kept[0], log_line):
        verdict = book.journal.verify([head])
        assert first(verdict) == ("job:job", int(head.split(":")[2])) and verdict.compared == 0
    assert "nowhere" in str(book.journal.verify([kept[0].rsplit(":", 1)[1]]).breaks[0])


def test_a_tail_cut_off_with_its_heads_is_found_only_by_a_head_kept_elsewhere(book):
    night(book, "1")
    seq, hash_ = list(book.journal.of_job("job"))[-1].seq, list(book.journal.of_job("job"))[-1].hash
    run = night(book, "2")
    for sql in (
        "DELETE FROM {prefix}journal WHERE chain = :run",
        "DELETE FROM {prefix}run WHERE id = :run",
    ):
        tamper(book, sql, run=run.id)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :chain AND seq > :seq", chain=CHAIN, seq=seq)
    tamper(
        book, "UPDATE {prefix}chain SET seq = :seq, head = :head WHERE name = :chain", chain=CHAIN, seq=seq, head=hash_
    )
    assert book.journal.verify().breaks == ()
    assert first(book.journal.verify([run.anchor])) == ("job:job", seq + 1)


def test_writers_go_on_during_an_audit(book, monkeypatch):
    run = book.open_run("job", "k")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    read, keys = book._tables.read, iter("0123456789")

    def reading(sql: str, **values: object):
        if "journal" in sql and "LIKE" in sql:
            writer.event("said")
            night(book, next(keys))
        return read(sql, **values)

    monkeypatch.setattr(book._tables, "read", reading)
    verdict = book.journal.verify()
    assert verdict.breaks == () and verdict.entries > 8


def test_what_is_pruned_during_an_audit_is_not_missed(book, monkeypatch):
    night(book, "1"), night(book, "2")
    read, prune = book._tables.read, iter([True])

    def reading(sql: str, **values: object):
        if "NOT LIKE" in sql and next(prune, False):
            book.prune(-5, "ann")
        return read(sql, **values)

    monkeypatch.setattr(book._tables, "read", reading)
    assert book.journal.verify().breaks == ()


@pytest.mark.parametrize("text", ["", "x", "job:job:3", "job:job:x:" + "0" * 64, "0" * 63, "job:" + "0" * 64])
def test_what_is_no_head_is_refused(book, text):
    with pytest.raises(UsageError, match="not a head"):
        book.journal.verify([text])


def stepped(book: Ledger, *, ends: bool = True) -> RunRow:
    """A run with three steps, on a chain of their own."""
    run = book.open_run("job", "k")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    writer.steps.append([(f"{number:032x}", str(number), "done", 1, "1", "") for number in range(3)])
    return writer.finish("succeeded") if ends else writer._fence.look()


@pytest.mark.parametrize(
    ("sql", "seq"),
    [
        ("UPDATE {prefix}journal SET body = body || '0' WHERE chain = :chain AND seq = 2", 2),
        ("DELETE FROM {prefix}journal WHERE chain = :chain AND seq = 2", 2),
        ("DELETE FROM {prefix}journal WHERE chain = :chain AND seq = 3", 3),
        ("DELETE FROM {prefix}journal WHERE chain = :chain", 3),
    ],
    ids=["changed", "removed", "cut", "gone"],
)
def test_a_step_that_was_touched_is_named(book, sql, seq):
    run = stepped(book)
    assert not book.journal.verify().breaks
    tamper(book, sql, chain=f"steps:{run.id}")
    assert first(book.journal.verify()) == (f"steps:{run.id}", seq)


def test_steps_that_were_recomputed_do_not_fit_their_run(book):
    run = stepped(book)
    tamper(
        book, "UPDATE {prefix}journal SET body = body || '0' WHERE chain = :chain AND seq = 2", chain=f"steps:{run.id}"
    )
    rewritten(book, f"steps:{run.id}")
    assert first(book.journal.verify()) == (f"steps:{run.id}", 3)


def test_steps_of_a_lost_attempt_are_held_by_the_entry_that_says_so(book):
    run = stepped(book, ends=False)
    assert not book.journal.verify().breaks  # it goes on
    book.seal(run.id, token=2, grant="h", holder=ME)
    assert not book.journal.verify().breaks
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :chain AND seq = 3", chain=f"steps:{run.id}")
    assert first(book.journal.verify()) == (f"steps:{run.id}", 3)


def test_steps_whose_run_was_removed_are_named(book):
    run = stepped(book, ends=False)
    tamper(book, "DELETE FROM {prefix}run WHERE id = :run", run=run.id)
    assert f"steps:{run.id}" in [found.chain for found in book.journal.verify().breaks]
