"""Schedules against a walk over every minute, around the changes of clocks of twelve zones.

NIGHTLATCH_ROUNDS=1 and more: ten years of ± 2 days around each change, and a whole year in two zones.
"""

from __future__ import annotations

import bisect
import datetime
import os
import random
from zoneinfo import ZoneInfo

import pytest

from nightlatch.core import schedule

LONG = bool(int(os.environ.get("NIGHTLATCH_ROUNDS", "0")))
MINUTE, DAY = 60, 86400
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Europe/Dublin",
    "Asia/Tehran",
    "Africa/Casablanca",  # back for Ramadan, by the moon
    "America/Santiago",  # at midnight
    "America/Havana",
    "Antarctica/Troll",  # by two hours
    "Asia/Beirut",
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Chatham",  # at a quarter to
    "UTC",
]
EXPRESSIONS = [
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 */2 * * *",
    "15 */2 * * *",
    "*/20 2 * * *",
    "0 2 * * *",
    "30 1 * * *",
    "45 2 * * *",
    "15,45 1-3 * * *",
    "0 0 * * *",
    "30 0,23 * * 0,6",
    "5 3 1-7 * 0",
    "10 2 */2 * *",
]
RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def values(field: str, lowest: int, highest: int) -> set[int]:
    """What a field allows; written again here, so that cronsim is not compared with itself."""
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{lowest}-{highest}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


class Walls:
    """A cron daemon that looks at the clock on the wall once a minute, as Debian's does."""

    def __init__(self, expression: str) -> None:
        fields = expression.split()
        self.minutes, self.hours, self.days, self.months, self.weekdays = (
            values(field, *span) for field, span in zip(fields, RANGES, strict=True)
        )
        self.both_days = fields[2][0] == "*" or fields[4][0] == "*"
        self.follows = fields[0][0] == "*" or fields[1][0] == "*"

    def match(self, wall: int) -> bool:
        days, seconds = divmod(wall, DAY)
        if seconds // 3600 not in self.hours or seconds // 60 % 60 not in self.minutes:
            return False
        date = datetime.date(1970, 1, 1) + datetime.timedelta(days)
        of_month, of_week = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return date.month in self.months and (of_month and of_week if self.both_days else of_month or of_week)

    def slots(self, zone: ZoneInfo, begin: int, end: int) -> list[int]:
        """After `begin`, up to `end`; it has looked for a day before."""
        found, shown = [], begin - DAY + offset(zone, begin - DAY)
        for at in range(begin - DAY, end + 1, MINUTE):
            wall = at + offset(zone, at)
            if self.follows:
                due = self.match(wall)
            else:  # every minute that the wall has passed since, none twice
                due = any(self.match(passed) for passed in range(shown + MINUTE, wall + 1, MINUTE))
                shown = max(shown, wall)
            if due and at > begin:
                found.append(at)
        return found


def offset(zone: ZoneInfo, at: int) -> int:
    there = datetime.datetime.fromtimestamp(at, zone).utcoffset()
    assert there is not None
    return round(there.total_seconds())


def changes(zone: ZoneInfo, years: range) -> list[int]:
    """The days on which a zone's clocks are changed; of one that changes none, two days at random."""
    first, last = (
        round(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()) for year in (years[0], years[-1] + 1)
    )
    found = [at for at in range(first, last, DAY) if offset(zone, at) != offset(zone, at + DAY)]
    return found or [first + 100 * DAY, first + 200 * DAY]


def compare(expression: str, name: str, begin: int, end: int, rng: random.Random) -> None:
    zone = ZoneInfo(name)
    seen, made = Walls(expression).slots(zone, begin, end), schedule.parse(expression, zone)
    what = f"{expression!r} in {name} after {datetime.datetime.fromtimestamp(begin, datetime.UTC)}"
    assert list(made.between(begin, end)) == seen, what
    for _ in range(40):  # at any moment: the next one, and the newest one
        now = rng.uniform(begin, end)
        place = bisect.bisect_right(seen, now)
        if place < len(seen):
            assert made.next(now) == seen[place], f"{what}, at {now}"
        if place:
            assert made.newest(now) == seen[place - 1], f"{what}, at {now}"


@pytest.mark.parametrize("name", ZONES)
def test_slots_around_changes_of_clocks_are_those_of_a_walk_over_every_minute(name: str) -> None:
    rng = random.Random(f"changes {name}")
    days = changes(ZoneInfo(name), range(2020, 2030))
    cases = [(expression, day) for expression in EXPRESSIONS for day in days]
    for expression, day in cases if LONG else rng.sample(cases, 12):
        compare(expression, name, day - 2 * DAY, day + 3 * DAY, rng)


@pytest.mark.parametrize("name", ["Australia/Lord_Howe", "Africa/Casablanca"])
def test_a_whole_year_is_that_of_a_walk_over_every_minute(name: str) -> None:
    rng = random.Random(f"year {name}")
    begin = round(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp())
    for expression in EXPRESSIONS if LONG else rng.sample(EXPRESSIONS, 1):
        compare(expression, name, begin, begin + 365 * DAY, rng)
