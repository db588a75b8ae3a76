"""Time that goes on while the machine sleeps.

`time.monotonic()` stops in suspend, so a laptop that slept for eight hours would believe that its lease has 40 seconds
left. The clock that counts sleep has another name on each system, and on Linux CLOCK_MONOTONIC_RAW is not it. Sleeps
and waits stop in suspend too, so code that waits reads the clock again after at most `SLICE`.
"""

from __future__ import annotations

import sys
import time

SLICE = 1.0  # seconds; how late a wake-up from suspend may be noticed

_ID = time.CLOCK_MONOTONIC_RAW if sys.platform == "darwin" else time.CLOCK_BOOTTIME


def now() -> float:
    """Seconds on the suspend-proof clock. Comparable between processes of one boot and time namespace."""
    return time.clock_gettime(_ID)


def wall() -> float:
    """Seconds since the epoch, for people and for tokens; never for a deadline."""
    return time.time()


def sleep(seconds: float) -> None:
    """Pause for at most `SLICE`. The caller reads the clock again: with a suspend in between, more time has passed."""
    time.sleep(min(seconds, SLICE))
