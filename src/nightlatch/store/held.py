"""The message about a lease that another holds: the holder, since when, until when, and what to type."""

from __future__ import annotations

import math
import time

from ..core import advice, duration
from ..core.model import Record
from ..system import clock
from . import sightings


def sentence(record: Record | None, name: str, folder: str = "") -> str:
    """Says who holds the lease. `folder`: the store's folder on this machine, where `sightings` are kept."""
    if record is None or not record.grant:
        return f"another holder had {name} a moment ago. Try again, or wait for it with --wait 60s"
    wait, when = max(record.ttl, 1.0), ""
    if record.left is None:
        wait, when = max(left_to_watch(record, folder), 1.0), f" It can be taken {takeover(record, folder)}."
    holder = f"{record.holder} since {time_of(record.since)}, {ending(record)}, token {record.token}"
    return (
        f"{name} is held by {holder}.{when} "
        f"Wait for it with --wait {duration.show(math.ceil(wait))}, or look: {advice.command('lease', 'show', name)}"
    )


def left_to_watch(record: Record, folder: str) -> float:
    """Seconds for which this machine still has to see the record unchanged, in a store without a clock."""
    return record.ttl * sightings.MARGIN - (sightings.watched_for(folder, record) or 0.0)


def takeover(record: Record, folder: str) -> str:
    """When the lease can be taken over, and why not yet: what follows "It can be taken"."""
    needed = duration.show(math.ceil(record.ttl * sightings.MARGIN))
    watched = sightings.watched_for(folder, record)
    why = f"this store has no clock, so a machine has to see the lease unchanged for 1.25 TTL, {needed}"
    if watched is None:
        return f"{needed} after a start on this machine has found it held, if it is not renewed: {why}"
    left = left_to_watch(record, folder)
    if left <= 0:
        return "by the next start on this machine"
    since = time_of(clock.wall() - watched)
    return (
        f"from {time_of(clock.wall() + left)} (in {duration.show(math.ceil(left))}) if it is not renewed: {why}; "
        f"this one has watched it since {since}"
    )


def lost_sentence(record: Record | None, name: str) -> str:
    if record is None or not record.grant:
        last = f"{record.holder} had it last, token {record.token}" if record else "the store does not know it"
        return f"the lease {name} is not held under this grant, and free now: {last}. Stop what you are doing under it"
    return (
        f"the lease {name} is not held under this grant: {record.holder} has it since {time_of(record.since)}, "
        f"token {record.token}. Stop what you are doing under it"
    )


def ending(record: Record) -> str:
    """Until when the lease is held, or for how long it has been expired."""
    left = record.until - clock.wall() if record.left is None else record.left
    if left <= 0:
        expired = "expired" if record.left is not None else "not renewed in time: its TTL was over"
        return f"{expired} {duration.show(-left)} ago"
    return f"until {time_of(record.until)} (in {duration.show(math.ceil(left))}) unless renewed"


def time_of(wall: float) -> str:
    """Local time, with the date unless it is today's."""
    shown = time.localtime(wall)
    today = shown[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", shown)
