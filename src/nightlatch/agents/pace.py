"""When to poll: soon at first, then less and less often; agents launched together are polled at different times."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = 2.0  # seconds


def pauses(longest: float, chance: float) -> Iterator[float]:
    """Seconds between polls. `chance`: a random number from 0 to 1, the same for all polls of an agent."""
    pause = min(FIRST, longest)
    yield pause
    while True:
        yield pause * (0.8 + 0.4 * chance)
        pause = min(pause * 1.5, longest)
