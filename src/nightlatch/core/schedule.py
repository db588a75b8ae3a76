"""Schedules: when a job is due. A slot is one due time, in whole seconds since the epoch.

A schedule is a cron expression, `@daily` and the like, `every 45m` (multiples since the epoch), or several of them.
Daylight saving time is treated as Debian's cron does. If the minute or hour field begins with a star, the wall clock
counts: a time that it skips is not due, a time that it shows twice is due twice. Otherwise a time that is skipped is
due at the change, and a time that comes twice is due the first time only.

cronsim parses the fields and says which days they name. Its iteration is not used: across a change of clocks by half an
hour it loses slots, and backwards it may never return.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left

from ..errors import UsageError
from . import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COUNTED = 1000  # slots; more are not counted exactly
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_HINT = 'write five fields, as in "0 2 * * *" for two at night, or @daily, or "every 45m"'
_EPOCH, _ONE_DAY = datetime.date(1970, 1, 1), datetime.timedelta(days=1)
_DAY = 86400
_FIRST_WINDOW = 3600
_LONGEST_WINDOW = 50 * 366 * _DAY  # a schedule that is not due within it never is


class Schedule:
    """The slots of one or several expressions, each slot once."""

    def __init__(self, expressions: Sequence[Cron | Every]) -> None:
        self._expressions = expressions

    def next(self, after: float) -> int:
        """The first slot after the time `after`."""
        return min(one.next(after) for one in self._expressions)

    def newest(self, at: float) -> int:
        """The newest slot at or before the time `at`, the same on every machine."""
        return max(one.newest(at) for one in self._expressions)

    def between(self, after: float, until: float) -> Iterator[int]:
        """The slots after `after`, up to and including `until`, in order."""
        from heapq import merge
        from itertools import takewhile

        last = None
        for slot in takewhile(lambda slot: slot <= until, merge(*(one.walk(after) for one in self._expressions))):
            if slot != last:
                yield slot
            last = slot

    def count(self, after: float, until: float) -> int:
        """How many slots `between` has: exact up to 1,000; 1,001 means more."""
        from itertools import islice

        return sum(1 for _ in islice(self.between(after, until), COUNTED + 1))


class Every:
    """Multiples of a period since the epoch: the same on every machine, whenever its scheduler was started."""

    def __init__(self, period: int) -> None:
        self._period = period

    def next(self, after: float) -> int:
        return self.newest(after) + self._period

    def newest(self, at: float) -> int:
        return int(at // self._period) * self._period

    def walk(self, after: float) -> Iterator[int]:
        from itertools import count

        return count(self.next(after), self._period)


class Cron:
    """A cron expression, by the wall clock of a time zone."""

    def __init__(self, expression: str, zone: datetime.tzinfo) -> None:
        from cronsim import CronSim, CronSimError

        fields = expression.split()
        if len(fields) > 5:  # a sixth would be seconds, which cronsim accepts
            raise UsageError(f"{expression!r} has too many fields: {_HINT}")
        try:
            found = CronSim(expression, datetime.datetime(1970, 1, 1))
        except CronSimError as error:
            raise UsageError(f"{expression!r} is not a schedule ({error}): {_HINT}") from error
        self._zone, self._months, self._match_day = zone, found.months, found.match_day
        self._follows_wall_clock = fields[0][0] == "*" or fields[1][0] == "*"
        self._times = [3600 * hour + 60 * minute for hour in sorted(found.hours) for minute in sorted(found.minutes)]
        if next(self._matches(0, _LONGEST_WINDOW), None) is None:
            raise UsageError(f"{expression!r} is never due: there is no such date")

    def next(self, after: float) -> int:
        return next(self.walk(after))

    def newest(self, at: float) -> int:
        width = _FIRST_WINDOW
        while (slot := self.next(at - width)) > at:
            width *= 2
            if width > _LONGEST_WINDOW:
                raise UsageError("this schedule was not due in the last fifty years")
        ahead = at  # there is no slot after `ahead`, up to `at`
        while (later := self.next(slot)) <= at:
            slot = later
            middle = (slot + ahead) // 2
            if (beyond := self.next(middle)) <= at:
                slot = beyond
            else:
                ahead = middle
        return slot

    def walk(self, after: float) -> Iterator[int]:
        """Every slot after `after`, without an end; a slot at a change of clocks may come twice in a row."""
        begin = int(after // 1) - _DAY  # a change of clocks in the day before can affect what is due
        shown = begin + self._offset(begin)  # the wall clock has shown every time before this one
        for start, end, offset in self._stretches(begin):
            wall = start + offset
            first = max(wall, int(after // 1) + 1 + offset)
            if not self._follows_wall_clock:
                if start > after and next(self._matches(shown, wall), None) is not None:
                    yield start  # in place of a time that is skipped
                first = max(first, shown)
                shown = max(shown, end + offset)
            for match in self._matches(first, end + offset):
                yield match - offset

    def _matches(self, wall: int, end: int) -> Iterator[int]:
        """The times from `wall` on, before `end`, that the fields name on a clock that is never changed."""
        day, second = divmod(wall, _DAY)
        date = _EPOCH + datetime.timedelta(days=day)
        for begin in range(wall - second, end, _DAY):
            if date.month in self._months and self._match_day(date):
                for time in self._times[bisect_left(self._times, second) : bisect_left(self._times, end - begin)]:
                    yield begin + time
            second, date = 0, date + _ONE_DAY

    def _stretches(self, begin: int) -> Iterator[tuple[int, int, int]]:
        """The time from `begin` on, in stretches of a constant offset from UTC: (begin, end, offset)."""
        longest = _DAY
        while True:
            offset, end = self._offset(begin), begin + _DAY
            while self._offset(end) == offset and end - begin < longest:
                end += _DAY
            if self._offset(end) != offset:
                same = end - _DAY
                while end - same > 1:
                    middle = (same + end) // 2
                    same, end = (middle, end) if self._offset(middle) == offset else (same, middle)
            yield begin, end, offset
            begin, longest = end, 2 * longest

    def _offset(self, at: int) -> int:
        return offset(self._zone, at)


def offset(zone: datetime.tzinfo, at: int) -> int:
    """Seconds by which the zone's wall clock is ahead of UTC at the time `at`."""
    ahead = datetime.datetime.fromtimestamp(at, zone).utcoffset()
    return round(ahead.total_seconds()) if ahead else 0


def parse(text: str | Sequence[str], zone: datetime.tzinfo) -> Schedule:
    """The schedule in a text, or in several texts together, by the wall clock of a time zone."""
    return Schedule([_parse_one(one, zone) for one in ((text,) if isinstance(text, str) else text)])


def _parse_one(text: str, zone: datetime.tzinfo) -> Cron | Every:
    words = text.split()
    if not words:
        raise UsageError(f"a schedule is empty: {_HINT}")
    if words[0].lower() == "every":
        period = duration.parse("".join(words[1:]), what=f"{text!r}: the time after `every`")
        if period < 1 or period % 1:
            raise UsageError(f"{text!r}: use whole seconds, 1s or more")
        return Every(int(period))
    if words[0] == "@reboot":
        raise UsageError("@reboot is not a time: let `nightlatch service install` start what is due after a boot")
    if words[0].startswith("@"):
        if len(words) > 1 or words[0].lower() not in SHORTHANDS:
            raise UsageError(f"{text!r} is not a schedule: there are {', '.join(SHORTHANDS)}")
        return Cron(SHORTHANDS[words[0].lower()], zone)
    return Cron(text, zone)


def name_of(slot: float) -> str:
    """The slot's name, in UTC, so that all machines agree: 2026-11-17T02:00Z, with seconds if they are not 0."""
    utc = datetime.datetime.fromtimestamp(slot, datetime.UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%SZ" if utc.second else "%Y-%m-%dT%H:%MZ")


def named(name: str) -> int:
    """The slot with a name that `name_of` made."""
    layout = "%Y-%m-%dT%H:%M:%SZ" if name.count(":") == 2 else "%Y-%m-%dT%H:%MZ"
    try:
        return round(datetime.datetime.strptime(name, layout).replace(tzinfo=datetime.UTC).timestamp())
    except ValueError:
        raise UsageError(f"{name!r} does not name a slot: write it as in 2026-11-17T02:00Z") from None


def counted(slots: int) -> str:
    """A number of slots, for people: "over 1,000" if there are more."""
    return f"{slots:,}" if slots <= COUNTED else f"over {COUNTED:,}"


def jitter(job: str, slot: int, most: float) -> float:
    """Seconds by which this slot of this job is delayed: the same on every machine."""
    if not most:
        return 0.0
    from hashlib import sha256

    digest = sha256(f"{job}\n{slot}".encode()).digest()
    return int.from_bytes(digest[:6]) / (1 << 48) * most
