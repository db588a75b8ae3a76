"""Record a refused start, of which there is no run."""

from __future__ import annotations

from ....core.job import Job
from ....errors import Busy, OverBudget, StoreUnreachable
from ....ledger.ledger import Ledger
from ....ledger.refused_starts import BUDGET, HELD


def record(ledger: Ledger, job: Job, why: Busy | OverBudget) -> None:
    cause = BUDGET if isinstance(why, OverBudget) else HELD
    try:
        ledger.refused_starts.add(job.name, cause, str(why))
    except StoreUnreachable:
        pass  # the refusal itself is what the caller has to know
