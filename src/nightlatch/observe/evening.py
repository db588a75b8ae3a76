"""The night that a person means who looks in the morning: the first screen, the page Now and the morning report count
the same one, from 22:00 in the ledger's time zone."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..system import zone

HOUR = 22
AT_LEAST = 4 * 3600.0  # what ended in the early evening still belongs to the night before


def began(zone_name: str, now: float, at_least: float = AT_LEAST) -> float:
    """When the newest night began that is `at_least` so many seconds old."""
    begin = datetime.fromtimestamp(now, zone.find(zone_name)).replace(hour=HOUR, minute=0, second=0, microsecond=0)
    while begin.timestamp() > now - at_least:
        begin -= timedelta(days=1)
    return begin.timestamp()
