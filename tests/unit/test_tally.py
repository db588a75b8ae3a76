"""Caps of a day and a month: what a job has used, in the ledger's own days."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest

from nightlatch.ledger.records import USED
from nightlatch.system import clock, zone
from tests.support.ledgers import begun


def used(book, job="job", besides=None):
    return [book.used(job, "usd", period, besides) for period in ("day", "month")]


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
    assert book.used_by_attempt(writer.run, "usd", "day") is None  # all of it
    tomorrow = time.time() + 86400
    monkeypatch.setattr(clock, "wall", lambda: tomorrow)
    assert book.used_by_attempt(writer.run, "usd", "day") == 0
    writer.usage(usd=2)
    assert book.used_by_attempt(writer.run, "usd", "day") == 2
    writer.finish("succeeded")
    assert book.used("job", "usd", "day") == 2


def test_a_report_says_what_it_is_about(book):
    writer = begun(book)
    writer.usage({"model": "large", "kind": "input", "source": "report", "item": "a", "tag": "site=x"}, tokens=5)
    (row,) = map(USED.read, book._tables.read(f"SELECT {USED.names} FROM {{prefix}}usage"))
    assert (row.model, row.kind, row.source, row.item, row.tag) == ("large", "input", "report", "a", "site=x")
    assert (row.attempt, row.amounts.tokens, row.run) == (1, 5, writer.run.id)


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
