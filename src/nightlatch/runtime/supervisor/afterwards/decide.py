"""A person decides how a run ended, or that it is to be done again."""

from __future__ import annotations

from ....core import advice, effects, statuses
from ....errors import RunEnded, UsageError
from ....ledger import kinds, open_for
from ....ledger.decisions import state_of
from ...shared import effect_records
from ...shared.leases.lease import Lease
from ..batches import batch
from ..run import begun
from . import lapse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow

DONE, FAILED, AGAIN = "done", "failed", "again"
OUTCOMES = (DONE, FAILED, AGAIN)


def resolve(run: RunRow, outcome: str, by: str, *, ledger: Ledger, store: Store, wait: float) -> RunRow:
    """Decide a run that is in doubt, needs attention or was left behind by its holder.

    done    its key is settled in the store too, under the job's lease: no machine does it again. Where each machine
            has its own ledger, the other outcomes are recorded in the store too
    failed  the next start with its key makes another attempt
    again   the same, and the run is pending until then

    Raises `RunEnded` if there is nothing to decide, if the run has moved on since `run` was read, or if the outcome is
    not `done` although the key is settled; and `Busy` if the job's lease is needed and another run of the job holds it
    for longer than `wait` seconds.
    """
    left_behind = lapse.status_of(run, ledger, store) == lapse.LAPSED
    if not left_behind and not statuses.needs_person(run.status):
        raise RunEnded(f"run {run.id} of {run.job} is {run.status}: there is nothing to resolve", run)
    token = begun.doubtful_token(ledger, run)

    def check_key() -> None:
        _check_not_settled(store, run, token)

    if left_behind or outcome == DONE or store.lists_begun:
        with Lease(store, run.job, ttl=store.default_ttl, wait=wait) as lease:
            current = ledger.run(run.id)
            if current is None or state_of(current) != state_of(run):
                raise RunEnded(f"run {run.id} of {run.job} has moved on meanwhile: look at it again", current or run)
            earlier = begun.decision(store, ledger, run)
            decided, _, decider = earlier.value.partition(" ") if earlier else (outcome, "", "")
            if decided != outcome:
                # The earlier decision may have led to new work that nobody has looked at: it is not decided here.
                raise RunEnded(f"run {run.id} of {run.job} has been decided meanwhile: {decided}, by {decider}", run)
            if outcome != DONE and not earlier:
                check_key()
            if left_behind:
                run = ledger.reap(run.id, token=lease.token, grant=lease.grant, doubt=True)
            if outcome == DONE and not store.lists_begun:
                # The key is settled after the run's row is changed, which fails if somebody else has decided (`failed`
                # needs no lease), and before the commit: after a crash in between, deciding it again does no harm.
                return ledger.decisions.resolve(
                    run.id, statuses.SUCCEEDED, by, state=state_of(run), before_commit=lambda: _settle(lease, run)
                )
            if outcome == DONE:
                _settle(lease, run)
            if earlier:
                lease.ended |= begun.doubtful_tokens(ledger, run)  # the earlier decision was cut short before this
            elif store.lists_begun:
                begun.decide(lease, run.job, run.key, outcome, by, begun.doubtful_tokens(ledger, run))
    # Without the lease, a `done` that is under way may settle the key until our change locks it out: look after that.
    before_commit = None if store.lists_begun else check_key
    if outcome == AGAIN:
        if not left_behind and run.status == statuses.NEEDS_ATTENTION:
            return ledger.decisions.retry(run.id, by, state=state_of(run), before_commit=before_commit)
        ledger.decisions.resolve(run.id, statuses.FAILED, by, state=state_of(run), before_commit=before_commit)
        return ledger.decisions.retry(run.id, by)
    status = statuses.SUCCEEDED if outcome == DONE else statuses.FAILED
    return ledger.decisions.resolve(run.id, status, by, state=state_of(run), before_commit=before_commit)


def resolve_open(
    key: str, outcome: str, by: str, *, of_batch: str, job: str, scope: str, began: float, store: Store, where: str,
    wait: float,
) -> str:  # fmt: skip
    """Decide an item of a batch, a run of `job` that another machine began, or an effect; returns its new status.
    `where`: the store's URL. `began`: as for `resolve_elsewhere`."""
    if of_batch:
        batch.resolve(of_batch, key, outcome, by=by, store=where, wait=wait)
        return effects.resolution(outcome, of_item=True)
    if job:
        resolve_elsewhere(job, key, outcome, by, began=began, ledger=open_for(where), store=store, wait=wait)
        return effects.resolution(outcome)
    return effect_records.resolve(key, outcome, by=by, scope=scope, store=where, wait=wait).status


def _settle(lease: Lease, run: RunRow) -> None:
    lease.store.settle(lease.name, lease.grant, run.job, run.key, value=run.id)


def _check_not_settled(store: Store, run: RunRow, token: int) -> None:
    """Raise `RunEnded` if the run's key was settled with `token`, that of the attempt in doubt, or later: then the run,
    or a person's `done`, was killed before the ledger had it. Recorded as failed, its work would be skipped for ever.
    """
    done = store.look(run.job, run.key)
    if done and done.token >= token:
        raise RunEnded(
            f"run {run.id} of {run.job} did its work: its key is done in the store (token {done.token}). Record that: "
            f"{advice.command('resolve', run.id, DONE)}; to do the work once more, then: "
            f"{advice.command('retry', run.id, '--again')}",
            run,
        )


def resolve_elsewhere(
    job: str, key: str, outcome: str, by: str, *, began: float, ledger: Ledger, store: Store, wait: float
) -> None:
    """Decide a run that another machine began and this ledger does not know; outcomes as for `resolve`.

    `began`: when the attempt that the person looked at began.
    """
    with Lease(store, job, ttl=store.default_ttl, wait=wait) as lease:
        listed = [one for one in lease.begun if one.key == key]
        if not listed:
            raise UsageError(f"{job} has no unfinished run with the key {key}")
        if any(one.at != began for one in listed):
            raise UsageError(f"{begun.sentence(listed[-1])}: that is not the one you decided about. Look at it again")
        if outcome == DONE:
            store.settle(lease.name, lease.grant, job, key)
        begun.decide(lease, job, key, outcome, by)
        ledger.journal.note(job, kinds.RESOLVED_ELSEWHERE, key=key, outcome=outcome, by=by)
