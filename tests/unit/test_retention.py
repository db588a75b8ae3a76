"""Pruning removes what ended long ago, and an audit can still tell that from a theft. On both databases."""

from __future__ import annotations

import time

import pytest

from nightlatch.ledger.ledger import Ledger
from tests.support.ledgers import CHAIN, ME, first, night, tamper

LENIENT = -3600  # seconds: whatever these prunes remove is old enough


def test_pruning_removes_what_ended_and_keeps_the_proof(book):
    old = [night(book, str(number)) for number in range(3)]
    running, asking = night(book, "r", ends=False), book.open_run("job", "p")
    book.decisions.attention(asking.id, "look", "ann")
    kept = book.journal.heads()
    removed = book.prune(-5, "ann")
    assert (set(removed.runs), removed.entries) == ({run.id for run in old}, 24)
    assert {run.id for run in book.history.runs()} == {running.id, asking.id}
    assert book.attempts(old[0].id) == [] and list(book.journal.of_run(old[0].id)) == []
    verdict = book.journal.verify([*kept, f"{old[0].id}:8:{old[0].head}"], keep=LENIENT)
    assert (verdict.breaks, verdict.compared, verdict.behind) == ((), 1, 1)
    assert book.prune(-5, "ann").runs == ()


def test_a_young_run_stays(book):
    run = night(book)
    assert book.prune(3600, "ann").runs == () and book.run(run.id) == run


def test_a_run_that_was_not_pruned_is_missed_all_the_same(book):
    night(book, "1")
    book.prune(-5, "ann")
    run = night(book, "2")
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run", run=run.id)
    tamper(book, "DELETE FROM {prefix}run WHERE id = :run", run=run.id)
    assert [found.chain for found in book.journal.verify().breaks] == [run.id]


def aged(book: Ledger, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let retention believe that so much time has passed."""
    real = book._tables.now
    monkeypatch.setattr(book._tables, "now", lambda: real() + round(seconds * 1000))


def test_the_jobs_chain_is_cut_behind_a_recorded_head(book, monkeypatch):
    first_night = night(book, "1")
    time.sleep(0.02)
    second = night(book, "2")
    before = second.created - 0.005
    with monkeypatch.context() as clock:
        clock.setattr(book._tables, "now", lambda: round(before * 1000))
        assert book.prune(0, "ann").runs == (first_night.id,)
    entries = list(book.journal.of_job("job"))
    assert [entry.kind for entry in entries] == ["opened", "ended", "cut"] and entries[0].seq == 3
    verdict = book.journal.verify([first_night.anchor, second.anchor], keep=LENIENT)
    assert (verdict.breaks, verdict.compared) == ((), 2)  # the first one is the very entry the cut names
    behind = book.journal.verify([f"job:job:1:{'0' * 64}"], keep=LENIENT)
    assert (behind.breaks, behind.compared, behind.behind) == ((), 0, 1)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :chain AND seq = 3", chain=CHAIN)
    assert first(book.journal.verify()) == ("job:job", 3)


def test_what_would_be_pruned_is_what_is_pruned(book, monkeypatch):
    for number in range(3):
        night(book, str(number))
        night(book, str(number), job="other")
    aged(book, monkeypatch, 10)
    would = book.prunable(5)
    assert book.prune(5, "ann") == would and len(would.runs) == 6
    assert book.prunable(5).runs == ()


def test_a_prune_that_runs_out_of_time_says_so_and_the_next_one_goes_on(book, monkeypatch):
    night(book, "1")
    night(book, "1", job="other")
    aged(book, monkeypatch, 10)
    assert not book.prune(5, "ann", within=-1).complete
    assert book.prune(5, "ann").complete and not list(book.history.runs()) and not book.journal.verify().breaks


def test_reports_of_usage_are_kept_for_a_month_and_their_sums_for_good(book, monkeypatch):
    run = book.open_run("job", "k")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    writer.usage(usd=2)
    writer.finish("succeeded")
    with monkeypatch.context() as clock:
        aged(book, clock, 30 * 86400)
        book.prune(86400, "ann")
        assert book.run(run.id) is None and [used.amounts.usd for used in book.history.tallies(("job",))] == [2.0]
    aged(book, monkeypatch, 33 * 86400)
    book.prune(86400, "ann")
    assert book._tables.read("SELECT run FROM {prefix}usage") == []
    assert [used.amounts.usd for used in book.history.tallies(("job",))] == [2.0]
