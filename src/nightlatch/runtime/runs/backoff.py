"""Waiting before the next try, by the suspend-proof clock."""

from __future__ import annotations

from ...core import retry
from ...system import clock


def pause(number: int, *, base: float, asked: float = 0.0) -> None:
    """After try number `number`: full jitter over a doubling span, and never less than a server asked for."""
    import random

    # Not a secret: it only keeps machines that failed together from trying together.
    until = clock.now() + retry.pause(number, base=base, chance=random.random(), asked=asked)  # noqa: S311
    while (left := until - clock.now()) > 0:
        clock.sleep(left)
