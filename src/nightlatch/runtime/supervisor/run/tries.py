"""All tries of one start.

    try → failed, and worth another → waiting (its due time is in the ledger, its lease is free) → the next try …

A supervisor that is killed between two tries loses none: the next start of the same key makes it when it is due.
"""

from __future__ import annotations

from ...shared.verdict import Verdict
from . import pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.job import Job
    from ....ledger.records import RunRow
    from ..batches.batch import Checkpoints
    from .claim import Claimed


def run(
    job: Job,
    *,
    store: str | None = None,
    checkpoints: Checkpoints | None = None,
    report: Callable[[Verdict], None] = lambda _: None,
    claim: str = "",
) -> Verdict:
    """Run a job, and try again as it says; or say why not: skipped when its key is done, Busy while another works on it
    or its next try is not due, InDoubt when a person has to decide. Needs its own process, as `supervise` does.

    `report` gets the verdict of every try that is followed by another. `claim`: the one that it is started for.
    """
    after: RunRow | None = None
    claimed: Claimed | None = None
    if claim:
        from .claim import Claimed

        claimed = Claimed(job, claim)
    while True:
        verdict, signals = pipeline.run(job, store=store, checkpoints=checkpoints, after=after, claim=claimed)
        if not signals:
            return verdict
        report(verdict)
        from . import waiting

        found = waiting.wait(verdict, store, signals)
        if isinstance(found, Verdict):
            if claimed:
                claimed.settle_here(store, found)
            return found
        after = found
