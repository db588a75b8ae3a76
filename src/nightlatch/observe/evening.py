"""When "last night" began: the first screen, the page Now and the morning report agree on 22:00 in the ledger's time
zone."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..system import zone

HOUR = 22  # when a night begins
AT_LEAST = 4 * 3600.0  # seconds: until 02:00, "last night" is the one that began on the evening before


def began(zone_name: str, now: float, at_least: float = AT_LEAST) -> float:
    """The newest 22:00 that is at least `at_least` seconds ago."""
    begin = datetime.fromtimestamp(now, zone.find(zone_name)).replace(hour=HOUR, minute=0, second=0, microsecond=0)
    while begin.timestamp() > now - at_least:
        begin -= timedelta(days=1)
    return begin.timestamp()
