"""Bounds imposed from outside, without the child: what may end a run before its own end."""

from __future__ import annotations

import os

from ....core import budget, duration
from ....errors import StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.budget import Cap

STALLED, OVER_BUDGET, CANCELLED = "stalled", "over-budget", "cancelled"

_LOOK_EVERY = 2.0  # seconds between two looks at the ledger and at the watched files
_AWAY = 10.0  # seconds until the next look at a ledger that does not answer: a server that is restarted ends no run


class RunWatch:
    """Judges a run, by the suspend-proof clock, whenever `judge` is called.

    *Progress* must advance: a report, a finished step, or a change of a watched file or folder. Output
    and a living process are not progress: an agent that hangs does both all night.
    """

    def __init__(
        self,
        *,
        now: float,
        stall: float | None,
        paths: list[str],
        caps: Callable[[], tuple[Cap, ...]],
        used: dict[str, float],
        spent_before: Callable[[str, str], float],
        cancelled_by: Callable[[], str | None],
    ) -> None:
        """`used`: by this attempt so far; call `spent` when it changes."""
        self._stall, self._paths, self._caps, self._used = stall, paths, caps, used
        self._spent_before, self._cancelled_by = spent_before, cancelled_by
        self._moved_at = now
        self._look_at = now + _LOOK_EVERY
        self._ask_at = now
        self._seen = self._look()
        self._weigh = True  # the budget; again when something was used, since only this run can use it up

    def progressed(self, now: float) -> None:
        self._moved_at = now

    def spent(self) -> None:
        self._weigh = True

    def judge(self, now: float) -> tuple[str, str] | None:
        """(status, reason) if the run has to end now."""
        mine = tuple(cap for cap in self._caps() if cap.period == "run") if self._weigh else ()
        cap = budget.exceeded(mine, self._used, self._spent_before)  # the run's own, which needs no ledger
        if cap:
            return OVER_BUDGET, f"the budget {cap} is spent"
        try:
            judged = self._by_ledger(now) if now >= self._ask_at else None
        except StoreUnreachable:
            judged, self._ask_at = None, now + _AWAY
        if judged:
            return judged
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            seen = self._look()
            if seen != self._seen:
                self._seen, self._moved_at = seen, now
        if self._stall is not None and now - self._moved_at > self._stall:
            return STALLED, f"no progress for {duration.show(now - self._moved_at)}"
        return None

    def _by_ledger(self, now: float) -> tuple[str, str] | None:
        cap = budget.exceeded(self._caps(), self._used, self._spent_before) if self._weigh else None
        self._weigh = False
        if cap:
            return OVER_BUDGET, f"the budget {cap} is spent"
        canceller = self._cancelled_by() if now >= self._look_at else None
        return (CANCELLED, f"cancelled by {canceller}") if canceller else None

    def next_at(self, now: float) -> float:
        """When to judge again, at the latest."""
        stall_at = self._moved_at + self._stall if self._stall is not None else float("inf")
        return max(min(self._look_at, stall_at + 0.01), now)

    def _look(self) -> list[tuple[str, int, int]]:
        """Names, times and sizes of what is watched; a folder with everything in it."""
        if self._stall is None:
            return []
        found = []
        for path in self._paths:
            places = [path]
            for base, folders, files in os.walk(path):
                places += [os.path.join(base, name) for name in (*folders, *files)]
            for place in places:
                try:
                    status = os.stat(place)
                    found.append((place, status.st_mtime_ns, status.st_size))
                except OSError:
                    continue
        return found
