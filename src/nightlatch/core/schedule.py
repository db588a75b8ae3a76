"""Schedules: which slot is due. Cron expressions as Debian's cron reads them, daylight saving time included."""

from __future__ import annotations

import datetime

from ..errors import UsageError


def newest_due(expression: str, now: float, zone: datetime.tzinfo) -> datetime.datetime:
    """The newest due time of a cron expression at or before `now`.

    Late, doubled and woken firings of one cron line agree on it, on every machine.
    """
    from cronsim import CronSim, CronSimError

    if len(expression.split()) > 5:  # seconds: a slot is named by its minute
        raise UsageError(f'{expression!r} has too many fields: write five, as in "0 2 * * *" for two at night')
    # A slot that is due this very second counts; reverse looks strictly before. In the hour that comes twice, when
    # clocks are set back, it goes by the clock on the wall and would name yesterday's: so begin behind that hour.
    begin = now + 1
    while datetime.datetime.fromtimestamp(begin, zone).fold:
        begin += 60
    try:
        slots = CronSim(expression, datetime.datetime.fromtimestamp(begin, zone), reverse=True)
        return next(slot for slot in slots if slot.timestamp() <= now)
    except CronSimError as error:
        raise UsageError(
            f'{expression!r} is no cron expression ({error}): write five fields, as in "0 2 * * *" for two at night'
        ) from error
    except StopIteration:
        raise UsageError(f"{expression!r} has never been due and never will be: there is no such date") from None


def name_of(slot: datetime.datetime) -> str:
    """The slot's name, in UTC: the same on every machine."""
    return slot.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
