"""What changed before a job got dearer, from a real ledger: the first run, the facts that differ, and the parts of it."""

from __future__ import annotations

import pytest

from nightlatch.core.row import SKIPPED, SlotRecord
from nightlatch.ledger import kinds
from nightlatch.observe import rise
from nightlatch.observe.changes import differences, job_changes
from nightlatch.observe.reader import StoreReader
from nightlatch.observe.rise import Level
from nightlatch.store import url
from nightlatch.system import clock
from tests.support.ledgers import ME

FACTS = {"program": "/bin/agent", "program_size": "10", "program_time": "1", "commit": "c0ffee", "nightlatch": "1"}


@pytest.fixture
def reader(book, ledger_url, monkeypatch):
    url.connect(ledger_url).read("nothing")
    list(book.history.runs())  # there is a ledger before it is looked at
    return StoreReader(ledger_url)


def night(book, monkeypatch, day: int, *, model: str = "small", facts: dict[str, str] = FACTS, **used: float) -> str:
    """A run of that day, which used so much."""
    moment = 1_790_000_000.0 + day * 86400
    monkeypatch.setattr(clock, "wall", lambda: moment)
    if book.many_machines:
        monkeypatch.setattr(type(book._tables), "now", lambda _: round(moment * 1000))
    run = book.open_run("articles", f"night-{day}", command="agent -p x", host="here")
    writer = book.seal(run.id, token=day + 1, grant=f"g{day}", holder=ME, facts=facts)
    writer.usage({"model": model}, **used)
    writer.finish("succeeded", elapsed=60 + day % 3)
    with book._tables.database.transaction() as execute:  # the server's clock goes on as it likes
        execute(
            book._tables.sql("UPDATE {prefix}run SET changed = :at WHERE id = :id"), at=round(moment * 1000), id=run.id
        )
    return str(run.id)


def test_the_first_dear_run_is_named_with_what_changed_and_how_much_each_part_is(book, reader, monkeypatch):
    usual = [night(book, monkeypatch, day, usd=1.0 + day % 3 / 50, tokens=1000, calls=10) for day in range(15)]
    upgraded = {**FACTS, "program_version": "2.0", "program_size": "12", "program_time": "2"}
    dear = [
        night(book, monkeypatch, day, model="large", facts=upgraded, usd=3.0 + day % 3 / 50, tokens=1100, calls=10)
        for day in range(15, 18)
    ]
    seen = job_changes(reader, "articles")
    (change,) = seen.changes
    assert (change.what, change.shift.first.run, change.shift.last_usual.run) == ("usd", dear[0], usual[-1])
    assert [(one.fact, one.before, one.after) for one in change.differences] == [
        ("version of the program", "", "2.0"), ("model", "small", "large"),
    ]  # fmt: skip
    assert list(change.parts) == ["price", "tokens a call"]
    assert sum(change.parts.values()) == pytest.approx(2.0, abs=0.05)
    assert seen.current == [change] and change.facts()["status"] == "lasts"
    book.journal.note("articles", kinds.USUAL, what="usd", by="ann", run=dear[0])
    with book._tables.database.transaction() as execute:
        at = round((1_790_000_000.0 + 17.5 * 86400) * 1000)
        execute(book._tables.sql("UPDATE {prefix}journal SET at = :at WHERE kind = 'usual'"), at=at)
    night(book, monkeypatch, 18, model="large", facts=upgraded, usd=3.0, tokens=1100, calls=10)
    assert job_changes(reader, "articles").current == []


def test_slots_that_are_skipped_because_a_run_is_still_at_work_are_a_change_too(book, reader, monkeypatch):
    runs = [night(book, monkeypatch, day, usd=1.0) for day in range(18)]
    assert "skipped" not in job_changes(reader, "articles").levels

    def skipped(day: int, reason: str) -> tuple[str, SlotRecord]:
        at = 1_790_000_000.0 + (day - 0.5) * 86400
        return "articles", SlotRecord(first=at, last=at, count=4, outcome=SKIPPED, reason=reason, slot=at, at=at)

    book.slots.put([skipped(day, "overlap") for day in (15, 16, 17)] + [skipped(day, "paused") for day in (12, 13, 14)])
    reader.memo.clear()  # a minute later
    (change,) = job_changes(reader, "articles").current
    assert (change.what, change.shift.first.run, round(change.shift.now)) == ("skipped", runs[15], 4)


def test_too_few_runs_and_unknown_jobs_are_silent(book, reader, monkeypatch):
    for day in range(3):
        night(book, monkeypatch, day, usd=10.0**day)
    assert job_changes(reader, "articles").changes == () and job_changes(reader, "nothing").runs == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Level(usd=1), Level(usd=3), {"price": 2.0}),
        (Level(usd=1, tokens=10), Level(usd=2, tokens=20), {"tokens": 1.0}),
        (Level(usd=1, tokens=10, calls=1), Level(usd=2, tokens=20, calls=2), {"calls": 1.0}),
        (Level(usd=1, runs_a_day=1), Level(usd=1, runs_a_day=4), {"runs": 3.0}),
        (Level(usd=0), Level(usd=2), {"price": 2.0}),
        (Level(usd=4, tokens=8, calls=2), Level(usd=1, tokens=2, calls=2), {"tokens a call": -3.0}),
    ],
)
def test_a_rise_goes_to_the_factor_that_rose(before, after, expected):
    assert rise.by_cause(before, after) == pytest.approx(expected)


def test_the_parts_of_a_rise_add_up():
    parts = rise.by_cause(
        Level(usd=0.98, tokens=61_000, calls=31, runs_a_day=1), Level(usd=2.84, tokens=64_000, calls=29, runs_a_day=1.5)
    )
    assert sum(parts.values()) == pytest.approx(2.84 * 1.5 - 0.98) and parts["calls"] < 0


def test_a_replaced_program_is_told_once():
    before = {"program": "/bin/a", "size of the program": "1", "time of the program": "1"}
    assert [one.fact for one in differences(before, before | {"size of the program": "2"})] == ["size of the program"]
    moved = before | {"program": "/opt/a", "size of the program": "2", "time of the program": "3"}
    assert [one.fact for one in differences(before, moved)] == ["program"]
