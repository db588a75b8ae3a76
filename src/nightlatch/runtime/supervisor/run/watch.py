"""Bounds that the supervisor imposes without the child's help: budget, stall, and a person's cancel."""

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
_LEDGER_PAUSE = 10.0  # seconds until a ledger that did not answer is asked again: its restart must not end a run


class RunWatch:
    """Judges a run, by the suspend-proof clock, whenever `judge` is called.

    *Progress* is a report, a finished step, or a change of a watched file or folder. Output and a living process are
    not progress: an agent that hangs may print all night.
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
        """`used`: what this attempt has used so far; call `spent` when it changes."""
        self._stall, self._paths, self._caps, self._used = stall, paths, caps, used
        self._spent_before, self._cancelled_by = spent_before, cancelled_by
        self._progressed_at = now
        self._look_at = now + _LOOK_EVERY
        self._ask_ledger_at = now
        self._last_look = self._look()
        self._check_budget = True  # set again when this run has used something: only that can exceed a cap

    def progressed(self, now: float) -> None:
        self._progressed_at = now

    def spent(self) -> None:
        self._check_budget = True

    def judge(self, now: float) -> tuple[str, str] | None:
        """(status, reason) if the run has to end now."""
        run_caps = tuple(cap for cap in self._caps() if cap.period == "run") if self._check_budget else ()
        cap = budget.exceeded(run_caps, self._used, self._spent_before)  # needs no ledger
        if cap:
            return OVER_BUDGET, f"the budget {cap} is spent"
        try:
            judged = self._by_ledger(now) if now >= self._ask_ledger_at else None
        except StoreUnreachable:
            judged, self._ask_ledger_at = None, now + _LEDGER_PAUSE
        if judged:
            return judged
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            look = self._look()
            if look != self._last_look:
                self._last_look, self._progressed_at = look, now
        if self._stall is not None and now - self._progressed_at > self._stall:
            return STALLED, f"no progress for {duration.show(now - self._progressed_at)}"
        return None

    def _by_ledger(self, now: float) -> tuple[str, str] | None:
        cap = budget.exceeded(self._caps(), self._used, self._spent_before) if self._check_budget else None
        self._check_budget = False
        if cap:
            return OVER_BUDGET, f"the budget {cap} is spent"
        canceller = self._cancelled_by() if now >= self._look_at else None
        return (CANCELLED, f"cancelled by {canceller}") if canceller else None

    def next_at(self, now: float) -> float:
        """When to judge again, at the latest."""
        stall_at = self._progressed_at + self._stall if self._stall is not None else float("inf")
        return max(min(self._look_at, stall_at + 0.01), now)

    def _look(self) -> list[tuple[str, int, int]]:
        """Names, times and sizes of the watched files, and of the watched folders with everything in them."""
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
