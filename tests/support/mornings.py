"""A morning that is the same whenever the tests run: the last Monday, at 07:12."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.support.programs import faketime


def monday() -> float:
    """In the machine's zone, at least a minute ago."""
    now = datetime.now().astimezone()
    found = now.replace(hour=7, minute=12, second=0, microsecond=0) - timedelta(days=now.weekday())
    return (found if found < now - timedelta(minutes=1) else found - timedelta(weeks=1)).timestamp()


def clock_at(moment: float) -> dict[str, str]:
    """An environment in which a process that starts now begins at that moment."""
    return faketime(f"-{round(datetime.now().timestamp() - moment)}s")
