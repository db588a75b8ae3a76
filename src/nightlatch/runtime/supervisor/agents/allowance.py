"""What a launch may use: held in every cap until the agent ends, so that two launches do not both get all that is left.

A launch gets what is left of the run's own cap, or of the item's. Where only a cap of a day, a month or several items
counts, it gets a quarter of what is left of that cap. What the vendor has counted is usage, and is no longer held.
"""

from __future__ import annotations

from ....core.units import UNITS, Amounts
from ....core.value import replace
from ....ledger.holds import ALL_JOBS, FIRST_LAUNCH, HOLD, SETTLED, Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....core.budget import Cap
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Records, Writer
    from ..run.spending import Spending

CAPPED = ("usd", "tokens")  # the units that a vendor can cap
_SHARE = 4  # a launch gets a fourth of what is left of a cap that others use too


class Allowances:
    """The allowances of one run's launches."""

    def __init__(self, ledger: Ledger, writer: Writer, spending: Spending, used: Mapping[str, float]) -> None:
        """`used`: what this attempt has used so far; the caller updates it."""
        self._ledger, self._writer, self._spending, self._used = ledger, writer, spending, used
        self._holds: dict[str, Hold] = {}  # by launch
        self._number = FIRST_LAUNCH  # of the last hold
        self._taken_over = False

    def give(
        self, launch: str, item: str, item_caps: tuple[Cap, ...], item_used: Mapping[str, float]
    ) -> dict[str, float]:
        """What this launch may use of each unit that has a cap, held from now on."""
        self._take_over()
        caps = [cap for cap in self._spending.caps if cap.unit in CAPPED]
        shared = [(self._writer.run.job, cap) for cap in caps if cap.period != "run"]
        shared += [(ALL_JOBS, cap) for cap in self._spending.caps_of_all_jobs if cap.unit in CAPPED]
        of_item = [(cap, item_used.get(cap.unit, 0.0)) for cap in item_caps if cap.unit in CAPPED]
        of_run = [(cap, self._used.get(cap.unit, 0.0) + self._spending.before(cap.unit, "run") + self._held(cap.unit))
                  for cap in caps if cap.period == "run"]  # fmt: skip
        # What this launch has for itself, and what it shares with the run's other items.
        exclusive, common = (of_item, of_run) if item else (of_run, [])
        if not (shared or exclusive or common):
            return {}
        allowed: dict[str, float] = {}

        def decide(taken: dict[tuple[str, str, str], int]) -> Hold | None:
            left = [(cap, cap.amount - taken[job, cap.period, cap.unit] / UNITS[cap.unit].scale) for job, cap in shared]
            left += [(cap, cap.amount - used) for cap, used in common]
            for unit in CAPPED:
                exclusive_left = [cap.amount - used for cap, used in exclusive if cap.unit == unit]
                shared_left = [rest if exclusive_left else rest / _SHARE for cap, rest in left if cap.unit == unit]
                if exclusive_left or shared_left:
                    allowed[unit] = max(min((*exclusive_left, *shared_left)), 0.0)
            if not allowed:
                return None
            self._number += 1
            run, amounts = self._writer.run, {unit: int(allowed.get(unit, 0.0) * UNITS[unit].scale) for unit in CAPPED}
            return Hold(
                run=run.id, attempt=run.attempt, call=self._number, job=run.job, at=self._writer.now(), calls=0,
                usd=amounts["usd"], tokens=amounts["tokens"], fixed=amounts["usd"], output_rate=0, output=0,
                item=item, agent=launch,
            )  # fmt: skip

        hold = self._ledger.holds.put_within([(job, cap.period, cap.unit) for job, cap in shared], decide)
        if hold:
            self._holds[launch] = hold
        return allowed

    def lower_hold(self, launch: str, more: Amounts | None) -> Records:
        """Rows to write together with a launch's usage: they lower what is held for it by `more`. None: the launch has
        ended or never began, so that nothing is held for it any more."""
        hold = self._holds.pop(launch, None)
        if hold is None:
            return ()
        settled = (SETTLED, [(hold.run, hold.attempt, hold.call)])
        if more is None:
            return (settled,)
        self._number += 1
        used = {unit: int(amount * UNITS[unit].scale) for unit, amount in more.by_unit().items() if unit in CAPPED}
        rest = {unit: max(getattr(hold, unit) - used[unit], 0) for unit in CAPPED}
        # Another number: one statement cannot remove and insert the same row.
        held = self._holds[launch] = replace(hold, call=self._number, at=self._writer.now(), fixed=rest["usd"], **rest)
        return settled, (HOLD, [HOLD.row(held)])

    def _held(self, unit: str) -> float:
        return float(sum(getattr(hold, unit) for hold in self._holds.values())) / UNITS[unit].scale

    def _take_over(self) -> None:
        """Drop what an earlier attempt held for its launches: those that go on get a new allowance."""
        if self._taken_over:
            return
        self._taken_over = True
        left = [hold for hold in self._ledger.holds.of_run(self._writer.run) if hold.call >= FIRST_LAUNCH]
        if left:
            self._ledger.holds.forget(left)
