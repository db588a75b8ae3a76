"""When a job is due next, and how the next change of clocks affects it."""

from __future__ import annotations

import datetime

from ..core import schedule
from ..core.job import Job
from ..core.value import value
from ..system import zone

SHOWN = 3  # how many of the next slots are forecast
_AROUND = 2  # how many slots on each side of a change
_DAY = 86400
_YEAR = 366 * _DAY


@value(frozen=True, kw_only=True)
class ClockChange:
    """A change of clocks, and the slots around it."""

    at: int
    by: int  # seconds; positive: forward
    slots: tuple[int, ...]


@value(frozen=True, kw_only=True)
class Forecast:
    slots: tuple[int, ...]
    change: ClockChange | None  # None if there is none within a year, or the schedule does not depend on the wall clock


def forecast(job: Job, now: float) -> Forecast | None:
    """The job's next slots and the next change of clocks; None for a job that is only run by hand."""
    if not job.schedule:
        return None
    time_zone = zone.find(job.tz)
    times = schedule.parse(job.schedule, time_zone)
    coming: list[int] = []
    while len(coming) < SHOWN:
        coming.append(times.next(coming[-1] if coming else now))
    at = _next_change(time_zone, int(now))
    if at is None or all(text.lower().startswith("every") for text in job.schedule):
        return Forecast(slots=tuple(coming), change=None)
    before = [times.newest(at - 1)]
    before.insert(0, times.newest(before[0] - 1))
    after = [times.next(at - 1)]
    after.append(times.next(after[0]))
    by = schedule.offset(time_zone, at) - schedule.offset(time_zone, at - 1)
    return Forecast(slots=tuple(coming), change=ClockChange(at=at, by=by, slots=(*before[-_AROUND:], *after[:_AROUND])))


def shown(slot: float, tz: str) -> str:
    """The slot by the zone's wall clock, with the offset from UTC, since 02:00 may come twice."""
    local = datetime.datetime.fromtimestamp(slot, zone.find(tz))
    offset = local.strftime("%z")
    seconds = ":%S" if local.second else ""
    return local.strftime(f"%a %Y-%m-%d %H:%M{seconds} ") + f"{offset[:3]}:{offset[3:5]}"


def _next_change(time_zone: datetime.tzinfo, now: int) -> int | None:
    """When the zone's clocks are changed next; None if not within a year."""
    for begin in range(now, now + _YEAR, _DAY):
        if schedule.offset(time_zone, begin) != schedule.offset(time_zone, begin + _DAY):
            low, high = begin, begin + _DAY
            while high - low > 1:
                middle = (low + high) // 2
                unchanged = schedule.offset(time_zone, middle) == schedule.offset(time_zone, begin)
                low, high = (middle, high) if unchanged else (low, middle)
            return high
    return None
