"""Caps of a day and a month: what a job has used, in the ledger's own days."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest

from nightlatch.core.units import UNITS
from nightlatch.ledger import tally
from nightlatch.ledger.holds import FIRST_LAUNCH, Hold
from nightlatch.ledger.records import USED
from nightlatch.system import clock, zone
from tests.support.ledgers import ME, begun


def used(book, job="job", besides=None):
    return [book.period_usage.of_job(job, "usd", period, besides) for period in ("day", "month")]


def test_what_ended_and_lost_and_running_attempts_used_counts_once(book):
    first = begun(book, 1)
    first.usage(usd=1)
    assert used(book) == [1, 1] and used(book, besides=first.run) == [0, 0]
    first.finish("failed")
    assert used(book) == [1, 1] == used(book, besides=first.run)
    left_behind = begun(book, 2)
    left_behind.usage(usd=2)
    assert used(book) == [3, 3]  # although nobody has found out yet that its holder is gone
    third = begun(book, 3)
    third.usage(usd=4)
    assert used(book) == [7, 7] and used(book, besides=third.run) == [3, 3]
    assert book.reap(third.run.id, token=4, grant="grant-4").status == "lost"
    assert used(book) == [7, 7] and used(book, "other") == [0, 0]


def test_the_days_before_count_for_the_month_and_those_before_it_do_not(book, monkeypatch):
    noon = 1_797_336_000  # 15 December 2026
    wall = [noon - 16 * 86400, noon - 86400, noon]
    for number, moment in enumerate(wall, 1):
        monkeypatch.setattr(clock, "wall", lambda moment=moment: float(moment))
        if book.many_machines:
            monkeypatch.setattr(type(book._tables), "now", lambda _, moment=moment: moment * 1000)
        writer = begun(book, number, key=str(number))
        writer.usage(usd=number)
        writer.finish("succeeded")
    assert used(book) == [3, 5]


def test_an_attempt_that_works_past_midnight_counts_by_its_reports(book, monkeypatch):
    writer = begun(book)
    writer.usage(usd=1)
    assert book.period_usage.of_attempt(writer.run, "usd", "day") is None  # all of it
    tomorrow, later = time.time() + 86400, clock.now() + 86400
    monkeypatch.setattr(clock, "wall", lambda: tomorrow)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert book.period_usage.of_attempt(writer.run, "usd", "day") == 0
    writer.usage(usd=2)
    assert book.period_usage.of_attempt(writer.run, "usd", "day") == 2
    writer.finish("succeeded")
    assert book.period_usage.of_job("job", "usd", "day") == 2


def test_a_step_of_this_machines_clock_moves_no_usage_to_another_day(book, monkeypatch):
    if not book.many_machines:
        pytest.skip("this machine's wall clock is the ledger's")
    writer = begun(book)
    writer.usage(usd=1)
    assert used(book)[0] == 1
    tomorrow = time.time() + 86400  # the clock was a day behind, and is set
    monkeypatch.setattr(clock, "wall", lambda: tomorrow)
    writer.usage(usd=2)
    assert used(book)[0] == 3 and book.holds.taken("job", "day", "usd") == 3 * UNITS["usd"].scale
    writer.finish("succeeded")
    monkeypatch.undo()
    assert used(book)[0] == 3


def hold(writer, call, at):
    return Hold(run=writer.run.id, attempt=1, call=call, job="job", at=at, usd=5, tokens=0, calls=0, fixed=5,
                output_rate=0, output=0)  # fmt: skip


def test_what_an_agent_was_given_is_held_on_the_next_day_too_until_its_run_has_ended(book):
    writer = begun(book)
    _, since = book._tables.days.beginning("day")
    for call, hours in ((1, 2), (2, 0.5), (FIRST_LAUNCH + 1, 5)):  # before midnight
        book.holds.put(hold(writer, call, since / 1000 - hours * 3600))
    assert book.holds.taken("job", "day", "usd") == 2 * 5  # no call to a model lasts two hours
    writer.finish("failed")
    assert book.holds.taken("job", "day", "usd") == 5


def test_a_report_says_what_it_is_about(book):
    writer = begun(book)
    writer.usage({"model": "large", "kind": "input", "source": "report", "item": "a", "tag": "site=x"}, tokens=5)
    (row,) = map(USED.read, book._tables.read(f"SELECT {USED.names} FROM {{prefix}}usage"))
    assert (row.model, row.kind, row.source, row.item, row.tag) == ("large", "input", "report", "a", "site=x")
    assert (row.attempt, row.amounts.tokens, row.run) == (1, 5, writer.run.id)


def rows(book, *by):
    return [
        (*(getattr(row, name) for name in by), row.attempts, row.runs, row.items, row.amounts.usd)
        for row in tally.report(book._tables, by)
    ]


def test_attempts_and_runs_are_counted_by_how_they_ended(book):
    writer = begun(book, 1)
    writer.progress(3, 5)
    writer.usage({"model": "large", "tag": "site=a"}, usd=1)
    writer.usage({"model": "small", "tag": "site=b"}, usd=0.25)
    assert rows(book, "status") == [("running", 0, 0, 0, 1.25)]
    writer.finish("failed", elapsed=2.5, again_at=time.time())  # another try follows
    second = begun(book, 2)
    second.usage({"model": "large"}, usd=2)
    third = begun(book, 3)  # takes it over
    third.finish("succeeded", elapsed=1)
    assert rows(book, "status") == [("failed", 1, 0, 3, 1.25), ("lost", 1, 0, 0, 2.0), ("succeeded", 1, 1, 0, 0)]
    assert rows(book, "model") == [("", 3, 1, 3, 0), ("large", 0, 0, 0, 3.0), ("small", 0, 0, 0, 0.25)]
    assert rows(book, "tag") == [("", 3, 1, 3, 2.0), ("site=a", 0, 0, 0, 1.0), ("site=b", 0, 0, 0, 0.25)]
    assert rows(book, "host", "job") == [("here", "job", 3, 1, 3, 3.25)]
    assert rows(book) == [(3, 1, 3, 3.25)]
    assert tally.sums(book._tables, (), ("runs",), job="other") == []
    (failed,) = [row for row in tally.report(book._tables, ("status",)) if row.status == "failed"]
    assert failed.elapsed == 2.5


def test_runs_inside_a_run_are_counted(book):
    outer = begun(book)
    nested = book.nested_runs(outer.run)
    for key in "ab":
        inner = nested.begin(key, ME)
        nested.commit([inner.ending("succeeded", reason="", elapsed=0.5)])
    both = [nested.begin(key, ME) for key in "cd"]
    nested.commit([inner.ending("failed", reason="no", elapsed=0.5) for inner in both])
    assert rows(book, "status") == [("failed", 2, 2, 0, 0), ("succeeded", 2, 2, 0, 0)]


def test_more_than_two_hundred_tags_of_a_day_are_one(book, monkeypatch):
    monkeypatch.setattr(tally, "MOST_TAGS", 3)
    for number in (1, 2):
        writer = begun(book, number, key=str(number))
        for site in range(4):
            writer.usage({"tag": f"site={site + number}"}, usd=1)
        writer.finish("succeeded")
    assert [(tag, usd) for tag, *_, usd in rows(book, "tag")] == [
        ("", 0), ("other", 3.0), ("site=1", 1.0), ("site=2", 2.0), ("site=3", 2.0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["UTC", "+05:45", "-03:30", "Asia/Tokyo", "Europe/Berlin"])
def test_a_day_is_the_same_however_it_is_found(monkeypatch, name):
    moments = [1_780_000_000_000 + hour * 3_600_000 for hour in range(0, 24 * 400, 5)]
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        shown = zone.find(name)
        for ms in moments:
            assert zone.day(name, ms) == datetime.fromtimestamp(ms / 1000, shown).date().isoformat()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("tz", "name", "hours"),
    [("Asia/Tokyo", "Asia/Tokyo", 9), (":Europe/Berlin", "Europe/Berlin", 1), ("ABC-3", "+03:00", 3), ("XYZ3:30", "-03:30", -3.5)],
)  # fmt: skip
def test_a_zone_is_recorded_so_that_another_machine_finds_it(monkeypatch, tz, name, hours):
    monkeypatch.setenv("TZ", tz)
    time.tzset()
    try:
        assert zone.name() == name
        assert zone.find(name).utcoffset(datetime(2026, 1, 1)) == timedelta(hours=hours)
    finally:
        monkeypatch.undo()
        time.tzset()
