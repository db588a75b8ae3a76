"""Claims that are prepared shortly before they are due: decided and packed, so that at the due time one commit makes
them, and they start.

Only the usual case is prepared: a row whose due slot is claimed, and nothing else. If somebody has moved the row since,
the store refuses the prepared move, as it does any other. The scheduler drops what it has prepared, and decides anew,
if anything else comes first: another look, an edited file, the end of a run, a clock that is set, a frozen process.
"""

from __future__ import annotations

from ..core.row import Move
from .row_plan import RowPlan

LEAD = 0.15  # seconds before a due time at which its claims are prepared; enough for several thousand
_MARGIN = 0.01  # seconds by which a process may wake up early
_LATEST = 1.0  # seconds after the due time; what would start later than that is decided anew


def is_near(due: float, now: float) -> bool:
    """Is it time to prepare what is due then?"""
    return due - now < LEAD + _MARGIN


class Prepared:
    """The claims of the slots that are due at one time."""

    def __init__(self, due: float, clock: float, moves: list[tuple[RowPlan, Move]], *, complete: bool) -> None:
        """`due`: by the store's clock; `clock`: the same time by this machine's clock that cannot be set. `complete`:
        are these moves all there is to do then?"""
        self.moves, self.complete = moves, complete
        self._due, self._clock = due, clock

    def holds(self, now: float, clock: float) -> bool:
        """Is it the due time by both clocks? If not, a clock was set, or this process was frozen, or asleep."""
        return self._due <= now <= self._due + _LATEST and clock <= self._clock + _LATEST
