"""Record a refused start, of which there is no run."""

from __future__ import annotations

from ....errors import OverBudget, StoreUnreachable
from ....ledger.refused_starts import BUDGET, HELD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.job import Job
    from ....errors import Busy
    from ....ledger.ledger import Ledger


def record(ledger: Ledger, job: Job, why: Busy | OverBudget) -> None:
    cause = BUDGET if isinstance(why, OverBudget) else HELD
    try:
        ledger.refused_starts.add(job.name, cause, str(why))
    except StoreUnreachable:
        pass  # the refusal itself is what the caller has to know
