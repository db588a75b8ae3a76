"""When a job is due next, and how the next change of clocks affects it."""

from __future__ import annotations

import datetime

from ..core import schedule
from ..core.job import Job
from ..core.value import value
from ..system import zone

SHOWN = 3  # how many of the next slots
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
    change: ClockChange | None  # None: none within a year, or the schedule does not depend on the wall clock


def forecast(job: Job, now: float) -> Forecast | None:
    """The job's next slots and the next change of clocks; None for a job that is only run by hand."""
    if not job.schedule:
        return None
    there = zone.find(job.tz)
    times = schedule.parse(job.schedule, there)
    coming: list[int] = []
    while len(coming) < SHOWN:
        coming.append(times.next(coming[-1] if coming else now))
    at = _next_change(there, int(now))
    if at is None or all(text.lower().startswith("every") for text in job.schedule):
        return Forecast(slots=tuple(coming), change=None)
    before = [times.newest(at - 1)]
    before.insert(0, times.newest(before[0] - 1))
    after = [times.next(at - 1)]
    after.append(times.next(after[0]))
    by = schedule.offset(there, at) - schedule.offset(there, at - 1)
    return Forecast(slots=tuple(coming), change=ClockChange(at=at, by=by, slots=(*before[-_AROUND:], *after[:_AROUND])))


def shown(slot: float, tz: str) -> str:
    """The slot by the zone's wall clock, with the offset from UTC, since 02:00 may come twice."""
    there = datetime.datetime.fromtimestamp(slot, zone.find(tz))
    offset = there.strftime("%z")
    seconds = ":%S" if there.second else ""
    return there.strftime(f"%a %Y-%m-%d %H:%M{seconds} ") + f"{offset[:3]}:{offset[3:5]}"


def _next_change(there: datetime.tzinfo, now: int) -> int | None:
    """When the zone's clocks are changed next; None if not within a year."""
    for begin in range(now, now + _YEAR, _DAY):
        if schedule.offset(there, begin) != schedule.offset(there, begin + _DAY):
            same, end = begin, begin + _DAY
            while end - same > 1:
                middle = (same + end) // 2
                same, end = (
                    (middle, end) if schedule.offset(there, middle) == schedule.offset(there, begin) else (same, middle)
                )
            return end
    return None
