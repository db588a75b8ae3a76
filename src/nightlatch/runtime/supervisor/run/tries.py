"""All tries of one start.

    try → failed, and worth another → waiting (its due time is in the ledger, its lease is free) → the next try …

If the supervisor is killed between two tries, the next start of the same key makes the next try when it is due.
"""

from __future__ import annotations

import os

from ....config import place
from ....errors import Busy, GateUnreachable, OtherStore, OverBudget
from ...shared import trace
from ...shared.verdict import Verdict
from .pipeline import Pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.job import Job
    from ....ledger.records import RunRow
    from ..batches.batch import Checkpoints
    from .claim import Claimed
    from .waiting import Signals


def run(
    job: Job,
    *,
    store: str | None = None,
    checkpoints: Checkpoints | None = None,
    report: Callable[[Verdict], None] = lambda _: None,
    claim: str = "",
) -> Verdict:
    """Run a job with its retries, and return the last verdict: `skipped` when its key is done. Raises `Busy` while
    another process works on it or its next try is not due, and `InDoubt` when a person has to decide. Needs its own
    process, as `supervise` does.

    `report` gets the verdict of every try that is followed by another. `claim`: the id of the claim that this is for.
    """
    previous_try: RunRow | None = None
    claimed: Claimed | None = None
    if claim:
        from .claim import Claimed

        claimed = Claimed(job, claim)
    while True:
        verdict, signals = _one_try(job, store, checkpoints, previous_try, claimed)
        if not signals:
            return verdict
        report(verdict)
        from . import waiting

        found = waiting.wait(verdict, store, signals)
        if isinstance(found, Verdict):
            if claimed:
                claimed.settle_here(store, found)
            return found
        previous_try = found


def _one_try(
    job: Job, store: str | None, checkpoints: Checkpoints | None, previous_try: RunRow | None, claim: Claimed | None
) -> tuple[Verdict, Signals | None]:
    """Returns the verdict and, if another try follows, the `Signals` that collect what arrives until then.
    `previous_try`: the run as the last try left it, waiting."""
    number = 0
    while True:
        number += 1
        pipeline = Pipeline(job, store, checkpoints, previous_try, claim)
        try:
            verdict = pipeline.go()
        except (Busy, OverBudget) as why:
            if not claim:  # the claim records what became of its slot
                from . import refused

                refused.record(pipeline.ledger, job, why)
            raise
        except (GateUnreachable, OtherStore) as why:
            if not pipeline.unsealed:
                raise
            from ..leases import unsealed

            if unsealed.back_off(number, why):
                continue
            verdict = pipeline.give_up(why)
            if claim:
                claim.settle(pipeline.store, pipeline.ledger, verdict)
        attempt = pipeline.attempt
        if attempt and attempt.attendance:
            attempt.attendance.show_rest()
        if attempt and job.ping:
            from . import ping

            ping.end(job.ping, verdict)
        from ..afterwards import retention

        retention.daily(pipeline.store, pipeline.ledger, pipeline.host)
        file = place.of_a_run(job.file)
        if file or trace.has_receiver(os.environ):
            from ..afterwards import notify

            notify.start_senders(file, pipeline.where, pipeline.store.folder)
        signals = attempt.signals if attempt else None
        if signals or claim:  # else the process ends now, which is faster; a schedule's may do another run
            pipeline.store.close()
            pipeline.ledger.close()
        return verdict, signals
