"""Moments that people type: 2026-11-18T02:00Z, 2026-11-18T02:00 in local time, or 2d from now."""

from __future__ import annotations

import datetime

from ..core import duration
from ..errors import UsageError
from ..system import clock


def moment(text: str, what: str) -> float:
    """Seconds since the epoch. `what`: the option, for the error."""
    if text[:1].isdigit() and "-" not in text:
        return clock.wall() + duration.parse(text, what=what)
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError(
            f"{what} {text!r} is not a time: write it as in 2026-11-18T02:00, or 2d for in two days"
        ) from None
