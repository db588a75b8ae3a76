"""The suspend-proof clock, which goes on while the machine sleeps.

`time.monotonic()` stops in suspend, so a laptop that slept for eight hours would believe that its lease has 40 seconds
left. The clock that counts sleep has another name on each system; CLOCK_MONOTONIC_RAW counts it on macOS, not on Linux.
`sleep` and timeouts stop in suspend too, so code that waits reads the clock again after at most `SLICE`.
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
    """Seconds since the epoch, to be shown and recorded; never for a deadline."""
    return time.time()


def sleep(seconds: float) -> None:
    """Pause for at most `SLICE`. The caller must read the clock again: if the machine slept, more time has passed."""
    time.sleep(min(seconds, SLICE))
