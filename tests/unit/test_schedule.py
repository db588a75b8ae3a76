from __future__ import annotations

import datetime
import itertools
import struct
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nightlatch.core import schedule
from nightlatch.errors import UsageError
from nightlatch.system import zone

UTC = datetime.UTC
SET_BACK = {  # where clocks are set back, and when
    "Europe/Berlin": datetime.datetime(2026, 10, 25, 1, tzinfo=UTC),
    "America/New_York": datetime.datetime(2026, 11, 1, 6, tzinfo=UTC),
    "Australia/Lord_Howe": datetime.datetime(2026, 4, 4, 15, tzinfo=UTC),  # by half an hour
}
SET_FORWARD = {
    "Europe/Berlin": datetime.datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime.datetime(2026, 3, 8, 7, tzinfo=UTC),
    "Australia/Lord_Howe": datetime.datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
}


def slots(expression: str, name: str, changed: datetime.datetime) -> list[int]:
    """The slots of two days around the change, as found by looking every five minutes."""
    found: list[int] = []
    begin = changed - datetime.timedelta(hours=26)
    for minute in range(0, 52 * 60, 5):
        now = (begin + datetime.timedelta(minutes=minute)).timestamp()
        due = schedule.parse(expression, ZoneInfo(name)).newest(now)
        assert due <= now
        if not found or due != found[-1]:
            found.append(due)
    return found


@pytest.mark.parametrize("name", SET_BACK)
@pytest.mark.parametrize("changes", [SET_BACK, SET_FORWARD])
@pytest.mark.parametrize("expression", ["0 2 * * *", "30 2 * * *", "30 1 * * *", "15 1,2 * * *"])
def test_a_slot_never_gives_way_to_an_older_one(
    name: str, changes: dict[str, datetime.datetime], expression: str
) -> None:
    found = slots(expression, name, changes[name])
    assert found == sorted(set(found))


def test_each_hour_of_the_two_that_look_alike_has_its_own_slot() -> None:
    found = slots("0 * * * *", "Europe/Berlin", SET_BACK["Europe/Berlin"])
    assert {b - a for a, b in itertools.pairwise(found)} == {3600}


@pytest.mark.parametrize(
    ("expression", "name", "now", "slot"),
    [
        ("30 */2 * * *", "Pacific/Chatham", "2026-04-04T13:21Z", "2026-04-04T12:45Z"),  # did not return
        ("30 */2 * * *", "Australia/Lord_Howe", "2026-04-04T15:25Z", "2026-04-04T13:30Z"),  # was two hours too old
        ("15 */2 * * *", "Australia/Lord_Howe", "2026-04-04T15:50Z", "2026-04-04T15:45Z"),  # cronsim's walk loses it
    ],
)
def test_a_change_by_half_an_hour_hides_no_slot(expression: str, name: str, now: str, slot: str) -> None:
    assert schedule.name_of(schedule.parse(expression, ZoneInfo(name)).newest(schedule.named(now))) == slot


def test_a_slot_within_a_minute_is_named_with_its_seconds() -> None:
    every = schedule.parse("every 45s", UTC)
    names = [schedule.name_of(slot) for slot in every.between(schedule.named("2026-11-17T02:00Z") - 1, 1794880890)]
    assert names == ["2026-11-17T02:00Z", "2026-11-17T02:00:45Z", "2026-11-17T02:01:30Z"]
    assert [schedule.name_of(schedule.named(name)) for name in names] == names


def test_every_counts_from_the_epoch_whatever_the_zone() -> None:
    for name in ("UTC", "Pacific/Chatham"):
        every = schedule.parse("every 45m", ZoneInfo(name))
        assert every.next(0) == 2700
        assert every.newest(2699) == 0
        assert every.newest(5400) == 5400


def test_several_expressions_are_one_schedule_and_a_common_slot_is_one() -> None:
    both = schedule.parse(["0 2 * * *", "@daily", "every 12h"], UTC)
    assert [slot // 3600 for slot in both.between(0, 86400)] == [2, 12, 24]
    assert (both.next(0), both.newest(3 * 3600)) == (7200, 7200)


def test_slots_are_counted_up_to_a_thousand() -> None:
    minutes = schedule.parse("* * * * *", UTC)
    assert minutes.count(0, 60 * 1000) == 1000
    assert schedule.counted(minutes.count(0, 60 * 1000)) == "1,000"
    assert schedule.counted(minutes.count(0, 60 * 500_000)) == "over 1,000"


def test_jitter_is_the_same_everywhere_and_spreads_jobs_and_slots() -> None:
    found = {schedule.jitter(job, slot, 600) for job in ("a", "b") for slot in range(0, 6000, 60)}
    assert len(found) == 200 and min(found) < 60 and max(found) > 540 and max(found) < 600
    assert schedule.jitter("articles", 1794880800, 600) == pytest.approx(581.6397926667732)
    assert schedule.jitter("articles", 1794880800, 0) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("soon", "is not a schedule"),
        ("* * * *", "is not a schedule"),
        ("0 0 2 * * *", "too many fields"),
        ("61 * * * *", "Bad minute"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 0 */31 * MON#5", "is never due"),
        ("@reboot", "service install"),
        ("@noon", "@hourly, @daily"),
        ("every", "is empty"),
        ("every 0s", "1s or more"),
        ("every 1500ms", "whole seconds"),
        ("every 45", "ambiguous without a unit"),
    ],
)
def test_what_is_not_a_schedule_is_refused_with_the_way_to_write_one(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        schedule.parse(text, UTC)


def test_a_zone_may_be_named_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one_zone = struct.pack(">4s16x6llbb4s", b"TZif", 0, 0, 0, 0, 1, 4, 7200, 0, 0, b"XST\0")
    (tmp_path / "localtime").write_bytes(one_zone)
    monkeypatch.setenv("TZ", f":{tmp_path}/localtime")
    assert zone.find().utcoffset(datetime.datetime(2026, 1, 1)) == datetime.timedelta(hours=2)
    monkeypatch.setenv("TZ", f"{tmp_path}/none")
    with pytest.raises(UsageError, match="is not known here"):
        zone.find()


def test_celery_10107_an_hourly_job_runs_in_both_of_the_hours_that_the_clock_shows_twice() -> None:
    hourly = schedule.parse("0 * * * *", ZoneInfo("US/Pacific"))
    first = round(datetime.datetime(2026, 11, 1, 8, tzinfo=UTC).timestamp())  # 1:00 PDT; an hour later 1:00 PST
    assert list(hourly.between(first - 1, first + 7200)) == [first, first + 3600, first + 7200]
