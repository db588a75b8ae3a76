"""The message about a lease that another holds: the holder, since when, until when, and what to type."""

from __future__ import annotations

import time

from ..core import advice, duration
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.model import Record


def sentence(record: Record | None, name: str) -> str:
    if record is None or not record.grant:
        return f"another holder had {name} a moment ago. Try again, or wait for it with --wait 60s"
    return (
        f"{name} is held by {record.holder} since {time_of(record.since)}, {ending(record)}, token {record.token}. "
        f"Wait for it with --wait {duration.show(max(record.ttl, 1))}, or look: {advice.command('lease', 'show', name)}"
    )


def lost_sentence(record: Record | None, name: str) -> str:
    if record is None or not record.grant:
        return (
            f"the lease {name} is not held under this grant: it was released or taken over. Stop, or acquire it again"
        )
    return (
        f"the lease {name} is not held under this grant: {record.holder} has it since {time_of(record.since)}, "
        f"token {record.token}. Stop what you are doing under it"
    )


def ending(record: Record) -> str:
    left = record.until - clock.wall() if record.left is None else record.left
    if left <= 0:
        return f"expired {duration.show(-left)} ago"
    return f"until {time_of(record.until)} (in {duration.show(left)}) unless renewed"


def time_of(wall: float) -> str:
    shown = time.localtime(wall)
    today = shown[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", shown)
