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
    from ....ledger.model import Run
    from ..batches.batch import Checkpoints


def run(
    job: Job,
    *,
    store: str | None = None,
    checkpoints: Checkpoints | None = None,
    report: Callable[[Verdict], None] = lambda _: None,
) -> Verdict:
    """Run a job, and try again as it says; or say why not: skipped when its key is done, Busy while another works on it
    or its next try is not due, InDoubt when a person has to decide. For a process of its own, as `supervise` is.

    `report` hears of every try that is followed by another.
    """
    after: Run | None = None
    while True:
        told, signals = pipeline.run(job, store=store, checkpoints=checkpoints, after=after)
        if not signals:
            return told
        report(told)
        from . import waiting

        found = waiting.wait(told, store, signals)
        if isinstance(found, Verdict):
            return found
        after = found
