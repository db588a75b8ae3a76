"""Waiting before the next try, by the suspend-proof clock."""

from __future__ import annotations

from ...core import retry
from ...errors import StoreUnreachable
from ...system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..shared.leases.lease import Lease

    T = TypeVar("T")


def pause_seconds(number: int, *, base: float, at_least: float = 0.0) -> float:
    """How long to wait after try `number`: full jitter over a doubling span, and never less than `at_least`."""
    import random

    # Any random number will do: it only keeps machines that failed together from trying again together.
    return retry.pause(number, base=base, chance=random.random(), at_least=at_least)  # noqa: S311


def pause(number: int, *, base: float) -> None:
    """Wait for `pause_seconds`."""
    until = clock.now() + pause_seconds(number, base=base)
    while (left := until - clock.now()) > 0:
        clock.sleep(left)


def until_recorded(lease: Lease, record: Callable[[], T]) -> T:
    """Call `record` until the store is reachable, and return its result: the work is done, and must not look undone.
    After one TTL the lease is no longer ours: the error is raised, and the next holder decides."""
    until = clock.now() + lease.ttl
    while True:
        try:
            return record()
        except StoreUnreachable:
            lease.check()
            if clock.now() > until:
                raise
            clock.sleep(clock.SLICE)
