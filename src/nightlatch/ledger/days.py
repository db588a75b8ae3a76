"""Days and months as a ledger counts them: in the time zone that was recorded when it was made."""

from __future__ import annotations

from datetime import UTC, datetime

from ..system import zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Days:
    def __init__(self, name: str, local_now: Callable[[], float], skew: float) -> None:
        """`skew`: how many seconds the ledger's clock is ahead of `local_now`."""
        self._zone, self._now, self._skew = zone.find(name), local_now, skew

    def of(self, ms: int) -> str:
        """The day of a moment, as in 2026-07-31."""
        return datetime.fromtimestamp(ms / 1000, self._zone).date().isoformat()

    def beginning(self, period: str) -> tuple[str, int]:
        """Where the current day or month begins: its first day, and that day's first moment in ms."""
        today = datetime.fromtimestamp(self._now() + self._skew, self._zone)
        first = today.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if period == "month":
            first = first.replace(day=1)
        return first.date().isoformat(), round(first.astimezone(UTC).timestamp() * 1000)
