"""When to poll: soon at first, later seldom, never sooner than the vendor asks for; agents that were launched together
are not polled together."""

from __future__ import annotations

from collections.abc import Iterator

FIRST = 2.0  # seconds


def pauses(longest: float, chance: float) -> Iterator[float]:
    """Seconds between polls. `chance`: from 0 to 1, an agent's own."""
    pause = min(FIRST, longest)
    yield pause
    while True:
        yield pause * (0.8 + 0.4 * chance)
        pause = min(pause * 1.5, longest)
