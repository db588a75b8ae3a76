"""What a run may use: its caps, against what it and its job have used before."""

from __future__ import annotations

import os

from ....config import place
from ....core import budget
from ....core.job import Job, metering_of
from ....core.units import UNITS
from ....errors import OverBudget, StoreUnreachable

ALL_JOBS = ""  # in place of a job: all jobs of the ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.budget import Cap
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ..socket.reported import Reported
    from .shared_days import SharedDays


class Spending:
    def __init__(self, job: Job, ledger: Ledger, reported: Reported, store: Store) -> None:
        """`reported`: what this attempt has used so far; it grows elsewhere."""
        self.days: SharedDays | None = None  # where each machine has its own ledger, if a cap is for a day or month
        if store.lists_begun and any(cap.period != "run" for cap in job.budget):
            from .shared_days import SharedDays

            self.days = SharedDays(job, store, ledger)
        self._job, self._declared, self._ledger, self._reported = job.name, job.budget, ledger, reported
        self.caps = job.budget  # a person may change them while the run goes on
        self.caps_of_all_jobs = of_all_jobs(job.file)
        self._last_known: dict[tuple[str, str], float] = {}  # the ledger's last answers, for when it is unreachable
        self._earlier: dict[str, float] = {}  # used by earlier attempts of the run
        self._run: RunRow | None = None  # once this attempt has begun

    def begin(self, run: RunRow) -> None:
        """This attempt of `run` has begun: what it uses is in `reported`, not among what was used before."""
        self._run = run
        self.count_earlier(run)
        if self.days:
            self.days.look()  # again: this time under the lease

    def metered_by(self, job: Job) -> str:
        """Where the job's usage figures come from."""
        return job.meter or metering_of((*self.caps, *self.caps_of_all_jobs))

    def refresh(self, run: str) -> None:
        """Take over the budget that a person has set for the run meanwhile."""
        if self._declared and (found := self._ledger.decisions.budget_of(run)):
            self.caps = budget.changed(self._declared, budget.parse(found))

    def count_earlier(self, run: RunRow | None) -> None:
        """Count what earlier attempts have used of the caps for one run: a retry does not get them anew."""
        if run and run.attempt and any(cap.period == "run" for cap in self.caps):
            from ...shared.usage import since_success

            self.refresh(run.id)
            self._earlier = since_success(self._ledger.journal.of_run(run.id))

    def check_not_spent(self) -> None:
        """Before anything is started: raise `OverBudget` if a cap is spent."""
        if self.days:
            self.days.look()
        cap = budget.exceeded(self.caps, {}, self.before, starting=True)
        if cap:
            until = "" if cap.period == "run" else f"when the {cap.period} is over, or "
            raise OverBudget(
                f"{self._job} is not started: its budget {cap} is spent. "
                f"It may start again {until}with a higher --budget"
            )
        for cap in self.caps_of_all_jobs:
            if self._ledger.holds.taken(ALL_JOBS, cap.period, cap.unit) >= cap.amount * UNITS[cap.unit].scale:
                raise OverBudget(
                    f"{self._job} is not started: the budget of all jobs together, {cap}, is spent. It may start again "
                    f"when the {cap.period} is over, or with a higher NIGHTLATCH_BUDGET"
                )

    def before(self, unit: str, period: str) -> float:
        """What was used before this attempt: by the run, or by its job in the ledger's current day or month."""
        if period == "run":
            return self._earlier.get(unit, 0.0)
        try:
            known = self._last_known[unit, period] = self._by_ledger(unit, period)
        except StoreUnreachable:
            if (unit, period) not in self._last_known:
                raise
            return self._last_known[unit, period]
        return known

    def _by_ledger(self, unit: str, period: str) -> float:
        before = self._ledger.period_usage.of_job(self._job, unit, period, besides=self._run)
        before += self.elsewhere(unit, period) / UNITS[unit].scale
        own = self._ledger.period_usage.of_attempt(self._run, unit, period) if self._run else None
        if own is None:
            return before
        # The attempt began before the current period: only a part of what it has used counts.
        return before + own + self._reported.unwritten.get(unit, 0.0) - self._reported.used.get(unit, 0.0)

    def elsewhere(self, unit: str, period: str) -> int:
        """What machines with other ledgers have used of the job's day or month, in whole parts."""
        return self.days.elsewhere(unit, period) if self.days else 0

    def exceeded(self) -> Cap | None:
        return budget.exceeded(self.caps, self._reported.used, self.before)


def of_all_jobs(file: str) -> tuple[Cap, ...]:
    """Caps for all jobs together: from NIGHTLATCH_BUDGET, else from nightlatch.toml."""
    if text := os.environ.get("NIGHTLATCH_BUDGET", ""):
        return budget.parse_for_all_jobs(text)
    found: tuple[Cap, ...] = place.settings(file, "budget").get("budget", ())
    return found
