"""Replies that are lost: what happened is found out, and nothing is written twice."""

from __future__ import annotations

import pytest

from nightlatch.errors import StoreUnreachable
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.writer import Writer
from nightlatch.runtime.supervisor.run import unwritten
from nightlatch.runtime.supervisor.run.unwritten import Unwritten
from tests.support.ledgers import begun


class Cut:
    """A database whose next commits are cut off: before they happen, or after."""

    def __init__(self, database, monkeypatch, *when: str) -> None:
        self.when = list(when)
        for verb in ("guarded", "transaction"):
            monkeypatch.setattr(database, verb, self._cutting(getattr(database, verb), verb))

    def _cutting(self, real, verb):
        def guarded(*words, **more):
            when = self.when.pop(0) if self.when else ""
            if when == "before":
                raise StoreUnreachable("cut off before")
            done = real(*words, **more)
            if when == "after":
                raise StoreUnreachable("cut off after")
            return done

        def transaction(*words, **more):
            when, transaction = self.when.pop(0) if self.when else "", real(*words, **more)
            if when == "before":
                raise StoreUnreachable("cut off before")
            if when == "after":
                return _CutAfter(transaction)
            return transaction

        return guarded if verb == "guarded" else transaction


class _CutAfter:
    def __init__(self, transaction) -> None:
        self._transaction = transaction

    def __enter__(self):
        return self._transaction.__enter__()

    def __call__(self, *words, **more):
        return self._transaction(*words, **more)

    def later(self, *words, **more):
        self._transaction.later(*words, **more)

    def insert(self, *words):
        self._transaction.insert(*words)

    def __exit__(self, *words):
        self._transaction.__exit__(*words)
        raise StoreUnreachable("cut off after")


def kinds(book: Ledger, writer: Writer) -> list[str]:
    return [entry.kind for entry in book.journal.of_run(writer.run.id)][2:]


def test_a_verb_whose_reply_was_lost_is_found_to_have_happened(book, monkeypatch):
    writer = begun(book)
    Cut(book._tables.database, monkeypatch, "after")
    writer.event("one")
    writer.event("two")
    assert kinds(book, writer) == ["one", "two"]


def test_a_verb_that_did_not_happen_says_so_and_the_next_one_does(book, monkeypatch):
    writer = begun(book)
    Cut(book._tables.database, monkeypatch, "before")
    with pytest.raises(StoreUnreachable):
        writer.usage(usd=1)
    assert writer.usage(usd=2).usd == 2.0 == book.run(writer.run.id).usage.usd
    assert kinds(book, writer) == ["usage"]


def test_what_a_run_has_used_is_known_after_a_reply_that_was_lost(book, monkeypatch):
    writer = begun(book)
    assert writer.usage(usd=0.1).usd == 0.1
    Cut(book._tables.database, monkeypatch, "after", "", "before", "")
    assert writer.usage(usd=0.2).usd == 0.3
    assert writer.usage(usd=0.4, tokens=5).usd == 0.7
    with pytest.raises(StoreUnreachable):
        writer.usage(usd=1)
    writer.event("one")
    last = writer.usage(usd=0.8)
    assert (last.usd, last.tokens) == (1.5, 5) and last == book.run(writer.run.id).usage


def test_a_commit_that_landed_late_is_caught_up_with(book, monkeypatch):
    """The server had it in its queue: a look found nothing, and then it happened."""
    writer, database = begun(book), book._tables.database
    real, late = database.guarded, []

    def guarded(*words, **more):
        late.append((words, more))
        raise StoreUnreachable("no answer in time")

    monkeypatch.setattr(database, "guarded", guarded)
    with pytest.raises(StoreUnreachable):
        writer.usage(usd=1)
    monkeypatch.setattr(database, "guarded", real)
    real(*late[0][0], **late[0][1])
    assert writer.usage(usd=2).usd == 3.0 == book.run(writer.run.id).usage.usd
    assert kinds(book, writer) == ["usage", "usage"] and book.journal.verify().breaks == ()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_verdict_whose_reply_was_lost_is_settled_by_asking_again(book, monkeypatch, when):
    writer = begun(book)
    writer.usage(usd=1)
    Cut(book._tables.database, monkeypatch, when)
    try:
        ended = writer.finish("failed", exit_code=3)
    except StoreUnreachable:
        assert when == "before"
        ended = writer.finish("failed", exit_code=3)
    assert (ended.status, kinds(book, writer)) == ("failed", ["usage", "ended"])
    assert [entry.kind for entry in book.journal.of_job("job")] == ["opened", "ended"]
    assert book.period_usage.of_job("job", "usd", "day") == 1


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("between", [True, False])
def test_usage_that_was_kept_is_written_once_also_if_it_landed_late(book, monkeypatch, tmp_path, landed, between):
    writer, database = begun(book), book._tables.database
    real, late = database.guarded, []

    def guarded(*words, **more):
        late.append((words, more))
        raise StoreUnreachable("no answer in time")

    monkeypatch.setattr(database, "guarded", guarded)
    verb, sums = writer.used({"usd": 1.0}), dict[str, float]()
    with pytest.raises(StoreUnreachable):
        writer.take(verb)
    kept = Unwritten(writer, str(tmp_path), sums)
    kept.keep({"usd": 1.0}, verb)
    assert sums == {"usd": 1.0} and kept
    monkeypatch.setattr(database, "guarded", real)
    if landed:
        real(*late[0][0], **late[0][1])
    if between:
        writer.event("said")
    kept.write()
    kept.write()
    assert book.run(writer.run.id).usage.usd == 1.0
    assert sums == {"usd": 0.0} and not kept and not (tmp_path / "unwritten").exists()


@pytest.mark.parametrize("landed", [True, False])
def test_usage_that_a_killed_supervisor_kept_is_recovered_once(book, monkeypatch, tmp_path, landed):
    writer, database = begun(book), book._tables.database
    real, late = database.guarded, []

    def guarded(*words, **more):
        late.append((words, more))
        raise StoreUnreachable("no answer in time")

    monkeypatch.setattr(database, "guarded", guarded)
    verb = writer.used({"usd": 1.0})
    with pytest.raises(StoreUnreachable):
        writer.take(verb)
    monkeypatch.setattr(unwritten, "start_new_thread", lambda *_: None)  # it was killed
    Unwritten(writer, str(tmp_path), {}).keep({"usd": 1.0}, verb)
    monkeypatch.setattr(database, "guarded", real)
    if landed:
        real(*late[0][0], **late[0][1])
    with (tmp_path / "unwritten").open("a") as file:
        file.write('{"id": "torn')
    unwritten.recover(str(tmp_path), book, writer)
    unwritten.recover(str(tmp_path), book, writer)
    assert book.run(writer.run.id).usage.usd == 1.0
