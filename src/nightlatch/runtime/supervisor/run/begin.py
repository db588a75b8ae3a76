"""Under the job's lease: open a run in the ledger, and seal it. From then on the attempt is the run's one writer."""

from __future__ import annotations

import os

from ....core import statuses
from ....core.retry import GAVE_UP
from ....errors import BadConfig, RunEnded
from ....ledger import kinds
from ....system import redaction
from ...shared import recorded_start
from ...shared.job import definition
from . import went_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....ledger.records import RunRow
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict
    from .pipeline import Pipeline


def open_run(start: Pipeline, key: str, *, lazy: bool = False) -> RunRow:
    """Open the run; returns it, pending, or as it is if it may not be opened. `lazy`: leave the flush to the seal."""
    job = start.job
    _read_environment(start)
    if start.previous_try:  # a run that was ended meanwhile is not opened again
        return start.ledger.run(start.previous_try.id) or start.previous_try
    return start.ledger.open_run(
        job.name, key, slot=job.due, command=start.hidden.text(job.target.shown), definition=definition(job),
        host=start.host, again=job.again, new=start.known is None, lazy=lazy,
        seen=start.known,
    )  # fmt: skip


def seal(start: Pipeline, lease: Lease, key: str) -> Writer | Verdict:
    """Open and seal the run. Returns its one writer; or the verdict, when there is nothing to attempt."""
    job, store, ledger = start.job, start.store, start.ledger
    opened = open_run(start, key, lazy=True)
    settled = not job.again and store.look(job.name, key) is not None
    if not settled and (verdict := _held_back(start, opened)):
        return verdict
    start.number = ledger.tries(opened) + 1
    decided = None
    if store.lists_begun:
        from . import begun

        decided = begun.decision(store, ledger, opened) if opened.status == statuses.RUNNING else None
        start.elsewhere = begun.elsewhere(lease, ledger, opened) if lease.begun and not settled else []
    start.publishes = start.only_publishes(opened)
    start.edited = bool(opened.approved) and not opened.attempt and opened.definition != definition(job)
    try:
        writer = ledger.seal(
            opened.id,
            token=lease.token,
            grant=lease.grant,
            holder=lease.holder,
            lost="again" if settled or decided or start.publishes else job.when_lost,
            command=start.hidden.text(job.target.shown),
            definition=definition(job),
            facts=went_in.facts(job, store.folder) | recorded_start.facts(job, start.hidden),
            seen=opened,
        )
    except RunEnded as ended:
        # Its last holder may have acted, or a person decided it while we waited for the lease.
        return start.conclude(ended.run, statuses.exit_code(ended.run.status))
    if start.claim and start.claim.gives_up and not settled:
        given_up = writer.finish(statuses.NEEDS_ATTENTION, reason=GAVE_UP)
        return start.conclude(given_up, statuses.exit_code(given_up.status))
    if settled:
        skipped = writer.finish(statuses.SUCCEEDED, exit_code=0, reason="its key is done already")
        end_begun(start, lease, skipped)
        return start.conclude(skipped, 0)
    if start.elsewhere:
        newest = start.elsewhere[-1]
        facts = {"attempt": newest.attempt, "host": newest.host, "token": newest.token}
        ledger.journal.note(job.name, kinds.BEGUN_ELSEWHERE, run=opened.id, **facts)
        writer.event(kinds.BEGUN_ELSEWHERE, **facts)
        if job.when_lost == "doubt":
            from .begun import sentence

            doubtful = writer.finish(statuses.IN_DOUBT, reason=sentence(newest))
            return start.conclude(doubtful, statuses.exit_code(doubtful.status))
    return writer


def end_begun(start: Pipeline, lease: Lease, run: RunRow, *, earlier: bool = True) -> None:
    """Take an ended run off the list of begun keys; a run that needs a person stays on it, for all machines. Without
    `earlier`, of the key's attempts only this one is taken off: nobody has checked what came of the earlier ones."""
    if start.lists_begun and not statuses.needs_person(run.status):
        from .begun import ended_tokens

        lease.ended = ended_tokens(lease, start.ledger, run.key, earlier=earlier)


def _read_environment(start: Pipeline) -> None:
    """Set the command's variables, and the redactor that hides their secrets in all that is recorded."""
    if start.job.env_file:
        from ...shared import env_file

        try:
            start.variables = env_file.variables(start.job)
        except BadConfig as error:  # raised when the attempt is prepared
            start.unusable = error
    start.hidden = redaction.secrets({**os.environ, **start.variables})


def _held_back(start: Pipeline, run: RunRow) -> Verdict | None:
    """The verdict if no further try is made; raises `Busy` if none may be made now."""
    if not start.previous_try and run.status != statuses.WAITING:
        return None
    from . import waiting

    if start.previous_try and waiting.moved_on(start.previous_try, run):
        return start.conclude(run, waiting.outcome(run))
    if run.status == statuses.WAITING and run.cancel:
        ended = waiting.cancel(run, start.ledger)
        if ended is None:
            return _held_back(start, open_run(start, run.key))
        return start.conclude(ended, statuses.exit_code(ended.status))
    if run.status == statuses.WAITING:
        start.check_due(run)
    return None
