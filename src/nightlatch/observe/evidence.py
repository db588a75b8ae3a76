"""The conditions for promoting a job, and which of them are met."""

from __future__ import annotations

from ..core import stage as stages
from ..core import statuses
from ..core.job import Job
from ..core.row import Row
from ..core.value import value
from ..ledger import kinds
from . import open_decisions
from .reader import StoreReader


@value(frozen=True, kw_only=True)
class Finding:
    good: bool  # the condition is met
    sentence: str


def findings(reader: StoreReader, row: Row, job: Job) -> list[Finding]:
    """The conditions for promoting the job from its stage, and whether each is met."""
    stage = stages.of(row, job.stage)
    needed = stages.needed(stage, job.promote_after)
    runs = f"{row.clean} clean run{'' if row.clean == 1 else 's'} as {stage} with the current definition"
    found = [Finding(good=row.clean >= needed, sentence=f"{runs} ({needed} needed)")]
    undecided = [
        run for status in statuses.NEEDS_PERSON for run in reader.ledger.history.runs(job=row.job, status=status)
    ]
    undecided_elsewhere = open_decisions.elsewhere(reader, row.job)
    open_count = len(undecided) + len(undecided_elsewhere)
    undecided_runs = f"{open_count or 'no'} run{'' if open_count == 1 else 's'} in doubt or in need of attention"
    found.append(Finding(good=not open_count, sentence=undecided_runs))
    refused = _stale_writes_refused(reader, row)
    stale_writes = f"{refused or 'no'} refused stale write{'' if refused == 1 else 's'} in this stage"
    found.append(Finding(good=not refused, sentence=stale_writes))
    timeout = "a timeout" if job.timeout is not None else "no timeout: add timeout"
    found.append(Finding(good=job.timeout is not None, sentence=timeout))
    if job.metered_by:
        budget = "a budget" if job.budget else "its usage is metered, and it has no budget: add budget"
        found.append(Finding(good=bool(job.budget), sentence=budget))
    return found


def may_be_promoted(reader: StoreReader, row: Row, job: Job) -> bool:
    """May the job be promoted now?"""
    stage = stages.of(row, job.stage)
    if stage == stages.UNATTENDED or row.clean < stages.needed(stage, job.promote_after):
        return False
    return all(one.good for one in findings(reader, row, job))


def _stale_writes_refused(reader: StoreReader, row: Row) -> int:
    """How many stale writes were refused since the job entered its stage."""
    since = float(row.change["at"]) if row.change else 0.0
    return sum(entry.kind == kinds.REFUSED for entry in reader.ledger.journal.of_job(row.job, since))
