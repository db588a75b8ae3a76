"""What `nightlatch check` says of the time to come."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest

from nightlatch.config import forecast
from nightlatch.core import schedule
from nightlatch.core.job import Job
from nightlatch.core.target import Command
from nightlatch.errors import UsageError
from nightlatch.scheduler import asleep
from nightlatch.scheduler.scheduled import Scheduled

NOW = schedule.named("2026-03-20T12:00Z")
BERLIN = ZoneInfo("Europe/Berlin")


def job(*when: str, tz: str = "Europe/Berlin", **more: object) -> Job:
    return Job(name="night", target=Command(words=("true",)), schedule=when, tz=tz, **more)  # type: ignore[arg-type]


def test_the_next_slots_and_those_around_the_change_of_clocks() -> None:
    found = forecast.forecast(job("30 2 * * *"), NOW)
    assert found and found.change
    assert [schedule.name_of(slot) for slot in found.slots] == [
        "2026-03-21T01:30Z",
        "2026-03-22T01:30Z",
        "2026-03-23T01:30Z",
    ]
    assert schedule.name_of(found.change.at) == "2026-03-29T01:00Z" and found.change.by == 3600
    shown = [forecast.shown(slot, "Europe/Berlin") for slot in found.change.slots]
    assert shown == [
        "Fri 2026-03-27 02:30 +01:00", "Sat 2026-03-28 02:30 +01:00",
        "Sun 2026-03-29 03:00 +02:00", "Mon 2026-03-30 02:30 +02:00",
    ]  # fmt: skip


def test_no_change_is_named_where_none_counts() -> None:
    for one in (job("0 2 * * *", tz="UTC"), job("every 45m")):
        found = forecast.forecast(one, NOW)
        assert found and found.change is None
    assert forecast.forecast(job(), NOW) is None


def play(one: Job, nap: str, host: str = "air") -> asleep.SimulatedSlots | None:
    return asleep.simulate(Scheduled(one, "d"), asleep.parse(nap), host, NOW, BERLIN)


def test_slots_that_are_slept_through_collapse_into_one_that_is_late() -> None:
    found = play(job("0 2 * * *"), "23:00-07:00")
    assert found and (found.slots, found.on_time, found.late, found.collapsed) == (30, 0, 30, 0)
    assert found.example and found.example[1] - found.example[0] == 5 * 3600 + 20
    hourly = play(job("30 * * * *"), "23:00-07:00")
    counts = (hourly.on_time, hourly.late, hourly.collapsed) if hourly else None
    assert counts == (481, 30, 209), "30 days of 24 hours, in which the clocks are set forward"


def test_the_jobs_policy_decides() -> None:
    assert play(job("0 2 * * *", catch_up="none"), "23:00-07:00").skipped == (("missed", 30),)  # type: ignore[union-attr]
    assert play(job("0 2 * * *", late=3600.0), "23:00-07:00").skipped == (("late", 30),)  # type: ignore[union-attr]
    assert play(job("0 2 * * *", late=6 * 3600.0), "23:00-07:00").late == 30  # type: ignore[union-attr]
    assert play(job("0 12 * * *", jitter=600.0), "13:00-14:00").on_time == 30  # type: ignore[union-attr]
    assert play(job("0 2 * * *", hosts=("mini",)), "23:00-07:00") is None
    assert play(job("0 2 * * *", hosts=("mini", "air")), "13:00-14:00").on_time == 30  # type: ignore[union-attr]


def test_hours_of_sleep_within_a_day_and_across_midnight() -> None:
    noon = datetime.datetime(2026, 3, 20, 12, tzinfo=BERLIN)
    assert asleep.parse("11:00-13:00").wakes(noon.timestamp(), BERLIN) == noon.timestamp() + 3600 + 20
    assert asleep.parse("13:00-11:00").wakes(noon.timestamp(), BERLIN) == noon.timestamp()
    midnight = noon.replace(hour=23, minute=30).timestamp()
    assert asleep.parse("23:00-07:00").wakes(midnight, BERLIN) == midnight + 7.5 * 3600 + 20
    for wrong in ("23-7", "now", "07:00-07:00", "07:00"):
        with pytest.raises(UsageError, match="--asleep"):
            asleep.parse(wrong)
