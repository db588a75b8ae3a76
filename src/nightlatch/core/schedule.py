"""Schedules: which slot is due. Cron expressions as Debian's cron reads them, daylight saving time included."""

from __future__ import annotations

import datetime

from ..errors import UsageError


def newest_due(expression: str, now: float, zone: datetime.tzinfo) -> datetime.datetime:
    """The newest due time of a cron expression at or before `now`.

    Late, doubled and woken firings of one cron line agree on it, on every machine.
    """
    from cronsim import CronSim, CronSimError

    moment = datetime.datetime.fromtimestamp(now, zone)
    try:
        # A slot that is due this very second counts; reverse looks strictly before.
        return next(CronSim(expression, moment + datetime.timedelta(seconds=1), reverse=True))
    except CronSimError as error:
        raise UsageError(
            f'{expression!r} is no cron expression ({error}): write five fields, as in "0 2 * * *" for two at night'
        ) from error
    except StopIteration:
        raise UsageError(f"{expression!r} has never been due and never will be: there is no such date") from None


def name_of(slot: datetime.datetime) -> str:
    """The slot's name, in UTC: the same on every machine."""
    return slot.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
