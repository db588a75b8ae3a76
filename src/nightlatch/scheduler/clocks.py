"""This machine's clocks from look to look: do they agree, and has the machine slept?"""

from __future__ import annotations

import time

from ..core.slots import AFTER_WAKE, STEADY
from ..system import clock

_STEP = 5.0  # seconds by which the wall clock may drift from one look to the next
_SLEPT = 10.0  # seconds; if more are missing on the clock that stops in suspend, the machine has slept


class Clocks:
    """The three clocks of this machine; tests replace them."""

    def now(self) -> float:
        """Goes on while the machine sleeps, and cannot be set."""
        return clock.now()

    def wall(self) -> float:
        return clock.wall()

    def awake(self) -> float:
        """Stops while the machine sleeps."""
        return time.monotonic()


class Steadiness:
    """Whether the clocks can be trusted: how long the wall clock has kept pace, and if the machine has just woken."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._since = clocks.now()  # since when the wall clock has kept pace
        self._last = self._read()
        self._woke: float | None = None
        self._stepped: float | None = None
        self.slept: list[tuple[float, float]] = []  # (seconds, until) of each sleep that is not in the journal yet

    def look(self) -> None:
        """Read the clocks, at the beginning of every look of the scheduler."""
        now, wall, awake = self._read()
        before, wall_before, awake_before = self._last
        passed = now - before
        if abs(wall - wall_before - passed) > _STEP:
            self._since = self._stepped = now
        if (asleep := passed - (awake - awake_before)) > _SLEPT:
            self._woke = now
            self.slept.append((asleep, wall))
        self._last = now, wall, awake

    @property
    def steady(self) -> float:
        """Seconds for which the clocks have agreed."""
        return self._last[0] - self._since

    @property
    def stepped(self) -> bool:
        """Has this process seen the wall clock being set, within the last `STEADY` seconds?"""
        return self._stepped is not None and self._last[0] - self._stepped < STEADY

    @property
    def just_woken(self) -> bool:
        return self._woke is not None and self._last[0] - self._woke < AFTER_WAKE

    def _read(self) -> tuple[float, float, float]:
        return self._clocks.now(), self._clocks.wall(), self._clocks.awake()
