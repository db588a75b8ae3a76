"""A job's usage of the day and month where each machine has its own ledger (git), kept in the job's row.

Each ledger writes there what it has used of the current day and month: totals, so that writing them twice changes
nothing, and a run whose supervisor was killed is in them when that machine next writes. What an attempt may use before
it writes again is *open*, and counts against the caps on the other machines until then: a machine that dies leaves its
open part in doubt, not unknown. Only the holder of the job's lease uses and writes, so the row is exact at each
start. Days are those of each ledger: machines that share a job should share a time zone.
"""

from __future__ import annotations

from ....core.row import Row
from ....core.units import METERED, UNITS
from ....core.value import replace
from . import counting
from .rows import move_row, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ....core.budget import Cap
    from ....core.job import Job
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger

    Counts = dict[str, int]  # by unit, in whole parts

PERIODS = ("day", "month")
_SHARE = 4  # a quarter of what is left is opened at a time: few pushes, and a machine that dies leaves the rest usable


class SharedDays:
    def __init__(self, job: Job, store: Store, ledger: Ledger) -> None:
        self._job, self._store, self._ledger = job, store, ledger
        self._others: list[dict[str, Any]] = []  # entries of the other ledgers
        self._mine: dict[str, Any] | None = None  # this ledger's entry, once this attempt has opened a part

    def look(self) -> None:
        """Read what the other machines have written. Exact while the lease is held."""
        row = read_row(self._store, self._job.name)
        by_ledger = (row.used if row else None) or {}
        self._others = [one for ledger, one in by_ledger.items() if ledger != self._ledger.id]

    def elsewhere(self, unit: str, period: str) -> int:
        """What the other machines have used, or may have, in the current day or month."""
        if not self._others:
            return 0
        current = self._ledger.period_usage.periods()[period]
        found = [(one["used"][period], one.get("open", {})) for one in self._others if one[period] >= current]
        return sum(int(used.get(unit, 0)) + int(opened.get(unit, 0)) for used, opened in found)

    def open_for(self, needed: Mapping[str, int], caps: Iterable[Cap]) -> None:
        """Open enough for the next call to a model. `needed`: what this attempt may have used after it, by unit."""
        if self._mine and self._mine["day"] != self._ledger.period_usage.periods()["day"]:
            self._mine = None  # a part is opened for one day only
        opened: Counts = self._mine["open"] if self._mine else {}
        if all(opened.get(unit, 0) >= needed[unit] for unit in METERED):
            return
        mine = self._mine or self._totals()
        wider = {}
        for unit in METERED:
            limits = [self._most(cap, mine) for cap in caps if cap.unit == unit and cap.period in PERIODS]
            most = min(limits, default=needed[unit])
            wider[unit] = max(needed[unit], min(most, opened.get(unit, 0) + (most - opened.get(unit, 0)) // _SHARE))
        self._publish(mine | {"open": wider})
        self._mine = mine | {"open": wider}

    def _most(self, cap: Cap, mine: dict[str, Any]) -> int:
        """The most that a cap lets this attempt use."""
        used = mine["used"][cap.period]
        doubt = used.get("doubt", 0) + self.elsewhere("doubt", cap.period) if cap.unit == "usd" else 0
        taken = used.get(cap.unit, 0) + self.elsewhere(cap.unit, cap.period) + doubt
        left: int = round(cap.amount * UNITS[cap.unit].scale) - taken
        return max(left, 0)

    def close(self) -> None:
        """The attempt has ended: write the totals, with nothing open."""
        self._mine = None
        self._publish(self._totals())

    def _totals(self) -> dict[str, Any]:
        names = self._ledger.period_usage.periods()
        used: dict[str, Counts] = {}
        for period in PERIODS:
            amounts = {unit: self._ledger.period_usage.of_job(self._job.name, unit, period) for unit in UNITS}
            used[period] = {unit: round(amount * UNITS[unit].scale) for unit, amount in amounts.items() if amount}
        return {**names, "used": used}

    def _publish(self, mine: dict[str, Any]) -> None:
        while True:
            row = read_row(self._store, self._job.name)
            by_ledger = (row.used if row else None) or {}
            entries = {ledger: one for ledger, one in by_ledger.items() if one["month"] >= mine["month"]}
            if not any(mine["used"].values()) and "open" not in mine:
                entries.pop(self._ledger.id, None)
            else:
                entries[self._ledger.id] = mine
            if entries == by_ledger:
                return
            old: Row = row or counting.new_row(self._job, self._store.clock())
            if move_row(self._store, self._ledger, old, replace(old, used=entries)):
                return
