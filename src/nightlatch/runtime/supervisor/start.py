"""The one starting function: the command line, Python and the scheduler hand a job to `start`, and get a verdict.

A job of nightlatch.toml is started in the folder of that file: the job's paths are relative to it.
"""

from __future__ import annotations

from ...core.target import Each
from ..shared.job import go_home
from .run import tries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.job import Job
    from ..shared.verdict import Verdict


def start(
    job: Job, *, store: str | None = None, report: Callable[[Verdict], None] = lambda _: None, claim: str = ""
) -> Verdict:
    """Run a job with all its tries, as `tries.run` does; for a batch, do all unfinished items. Needs its own process,
    and changes that process's working directory."""
    where = go_home(job, store)
    if not isinstance(job.target, Each):
        if job.publish:
            from ..shared import client

            client.check_may_act()
        return tries.run(job, store=where, report=report, claim=claim)
    from ...core.batch import unpack
    from .batches.batch import prepare_checkpoints

    checkpoints = prepare_checkpoints(unpack(job.target), where)  # the one writer of what becomes of the batch's items
    try:
        return tries.run(job, store=where, checkpoints=checkpoints, report=report, claim=claim)
    finally:
        checkpoints.close()
