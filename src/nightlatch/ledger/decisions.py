"""What people decide and observers find about runs. No token is needed: each change is a compare-and-set on the run's
status, recorded on the job's chain with the name of the person or machine."""

from __future__ import annotations

from ..core import advice, statuses
from ..errors import InDoubt, RunEnded, UsageError
from . import kinds
from .chain import clean, job_chain
from .records import ENTRY, RUN, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import ChainTransaction, Tables

_ANCHOR = "UPDATE {prefix}run SET anchor = :anchor WHERE id = :id {run_row}"

# A holder's late verdict, another person's decision or a new attempt changes status, attempt or cancel: then no row
# matches.
_CHANGE = """
UPDATE {prefix}run SET status = :status, cancel = :cancel, reason = :reason, changed = :at, due = NULL,
  held = CAST(:held AS BIGINT), approved = :approved, ended = CASE WHEN :ends = 1 THEN :at ELSE ended END
WHERE id = :id AND status = :was_status AND attempt = :was_attempt AND cancel = :was_cancel {matched}
"""
# An attempt that a person calls a success counts as one: a later `--again` starts from the beginning.
_SUCCEEDED = """
UPDATE {prefix}attempt SET status = 'succeeded',
  reason = CASE WHEN reason = '' THEN :reason ELSE reason || '; ' || :reason END
WHERE run = :run AND attempt = :attempt
"""
_REQUEST_CANCEL = """
UPDATE {prefix}run SET cancel = :cancel
WHERE id = :id AND status = 'running' AND attempt = :was_attempt AND cancel = '' {matched}
"""
_PUT_BUDGET = """
INSERT INTO {prefix}budget (run, caps) VALUES (:run, :caps) ON CONFLICT (run) DO UPDATE SET caps = excluded.caps
"""


def anchor(chain: ChainTransaction, run: str, kind: str, **facts: object) -> RunRow:
    """Append an entry about a run to its job's chain, and keep the chain's new head in the run's row."""
    anchor = chain.append(kind, run=run, **facts)
    return RUN.read(chain(_ANCHOR, id=run, anchor=anchor)[0])


def state_of(run: RunRow) -> str:
    """What a person knows of a run when deciding. Not its head: that moves with every report of progress."""
    return f"{run.status} {run.attempt} {run.anchor}"


def change(
    tables: Tables,
    run: RunRow,
    status: str,
    kind: str,
    *,
    reason: str | None = None,
    cancel: str = "",
    held: float | None = None,
    approved: str = "",
    before_commit: Callable[[], object] | None = None,
    **facts: object,
) -> RunRow | None:
    """Move the run to `status` if it is still as it was seen; otherwise change nothing and return None. `cancel`: the
    person that requested its end. `held`: until when it waits for an approval; `approved`: the approved plan's head.
    `before_commit`: called only if the run is moved; if it raises, nothing is changed."""
    facts |= {name: fact for name, fact in (("held", held), ("approved", approved)) if fact}
    if not statuses.may_follow(run.status, status):
        raise ValueError(f"{title(run)} is {run.status}: {status} cannot follow that")
    with tables.on_chain(run.job) as chain:
        moved = chain(
            _CHANGE,
            id=run.id,
            was_status=run.status,
            was_attempt=run.attempt,
            was_cancel=run.cancel,
            status=status,
            cancel="" if status == statuses.PENDING else clean(cancel) or run.cancel,
            reason=run.reason if reason is None else clean(reason),
            held=None if held is None else round(held * 1000),
            approved=approved or (run.approved if status in statuses.OPEN else ""),
            ends=int(status not in statuses.OPEN),
            at=chain.at,
        )
        if not moved:
            return None
        if before_commit:
            before_commit()
        if status == statuses.SUCCEEDED:
            chain(_SUCCEEDED, run=run.id, attempt=run.attempt, reason=clean(reason or ""))
        return anchor(
            chain, run.id, kind, was=run.status, status=status, seq=run.seq, head=run.head, reason=reason,
            cancel=cancel or None, **facts,
        )  # fmt: skip


def ask_to_end(tables: Tables, run: RunRow, by: str) -> RunRow | None:
    """Leave a request for the holder of a running run. None if it no longer runs, or already has one."""
    with tables.on_chain(run.job) as chain:
        if not chain(_REQUEST_CANCEL, id=run.id, was_attempt=run.attempt, cancel=clean(by)):
            return None
        return anchor(chain, run.id, kinds.CANCEL_REQUESTED, by=by)


def cancel(tables: Tables, run: RunRow, by: str) -> RunRow | None:
    if run.status == statuses.RUNNING:
        return run if run.cancel else ask_to_end(tables, run, by)
    if run.status in statuses.OPEN:
        return end(tables, run, f"cancelled by {by}", by, person=True)
    if statuses.needs_person(run.status):
        raise RunEnded(f"{title(run)} is {run.status}: say how it ended, with {advice.command('resolve', run.id)}", run)
    raise RunEnded(f"{title(run)} has ended already: {run.status}", run)


def end(tables: Tables, run: RunRow, reason: str, by: str, *, person: bool) -> RunRow | None:
    """Cancel a run that is not running. `person`: a person requested it."""
    cancel = by if person else ""
    return change(tables, run, statuses.CANCELLED, kinds.CANCELLED, reason=reason, cancel=cancel, by=by)


def resolve(
    tables: Tables, run: RunRow, outcome: str, by: str, before_commit: Callable[[], object] | None = None
) -> RunRow | None:
    if outcome not in (statuses.SUCCEEDED, statuses.FAILED, statuses.CANCELLED):
        raise UsageError(f"a run cannot be resolved as {outcome!r}: use succeeded, failed or cancelled")
    if not statuses.needs_person(run.status):
        raise RunEnded(f"{title(run)} is {run.status}: only what is in doubt or needs attention can be resolved", run)
    reason = f"resolved as {outcome} by {by}"
    return change(tables, run, outcome, kinds.RESOLVED, reason=reason, before_commit=before_commit, by=by)


def hold(tables: Tables, run: RunRow, until: float) -> RunRow | None:
    """Let a pending run wait for an approval; any other is returned as it is."""
    if run.status != statuses.PENDING:
        return run
    return change(tables, run, statuses.WAITING, kinds.HELD, held=until)


def approve(tables: Tables, run: RunRow, head: str, by: str) -> RunRow | None:
    """Approve the plan that has this `head` ("": the present one). A second approval changes nothing."""
    if run.approved and run.status not in (*statuses.NEEDS_PERSON, statuses.SUCCEEDED):
        return run
    if run.status != statuses.WAITING or run.held is None:
        raise RunEnded(f"{title(run)} is {run.status}: it does not wait for an approval", run)
    if head and run.head != head:
        raise RunEnded(f"{title(run)} holds another plan by now. Look: {advice.command('show', run.id)}", run)
    return change(tables, run, statuses.PENDING, kinds.APPROVED, approved=run.head, by=by)


def held_message(run: RunRow) -> str:
    return (
        f"{title(run)} waits for your approval: {advice.command('approve', run.id)}; refuse it: "
        f"{advice.command('cancel', run.id)}"
    )


def retry(tables: Tables, run: RunRow, by: str, before_commit: Callable[[], object] | None = None) -> RunRow | None:
    if run.status == statuses.IN_DOUBT:
        raise RunEnded(
            f"{title(run)} is in doubt: it may have acted. Look, then {advice.command('resolve', run.id)} first", run
        )
    if run.status == statuses.SUCCEEDED:
        raise RunEnded(f"{title(run)} succeeded: to do it once more, {advice.command('retry', run.id, '--again')}", run)
    if run.status == statuses.RUNNING:
        raise RunEnded(f"{title(run)} is running, by {run.holder}", run)
    if run.status == statuses.PENDING:
        return run
    if run.held is not None:
        raise InDoubt(held_message(run))
    return change(tables, run, statuses.PENDING, kinds.RETRIED, before_commit=before_commit, by=by, attempt=run.attempt)


def attention(tables: Tables, run: RunRow, reason: str, by: str) -> RunRow | None:
    if run.status not in (statuses.PENDING, statuses.WAITING):
        raise RunEnded(f"{title(run)} is {run.status}", run)
    return change(tables, run, statuses.NEEDS_ATTENTION, kinds.NEEDS_ATTENTION, reason=reason, by=by)


def set_budget(tables: Tables, run: RunRow, caps: str, by: str) -> None:
    """Replace the budget that the run was started with."""
    with tables.on_chain(run.job) as chain:
        chain(_PUT_BUDGET, run=run.id, caps=caps)
        chain.append(kinds.BUDGET, run=run.id, caps=caps, by=by)


def budget_of(tables: Tables, run: str, *, patience: float) -> str:
    """The caps that a person has set for a run; "" if none. Reads one row, and waits for no writer."""
    rows = tables.read("SELECT caps FROM {prefix}budget WHERE run = :run", patience=patience, run=run)
    return str(rows[0][0]) if rows else ""


def acknowledge(tables: Tables, run: RunRow, by: str) -> None:
    """Record that a person has seen the failed attempt: the run needs no attention until another attempt fails."""
    with tables.on_chain(run.job) as chain:
        chain.append(kinds.ACKNOWLEDGED, run=run.id, attempt=run.attempt, by=by)


def acknowledged(tables: Tables, job: str) -> frozenset[tuple[str, int]]:
    """(run, attempt) of each acknowledged failure."""
    newest = "WHERE chain = :chain AND kind = :kind ORDER BY seq DESC LIMIT 1000"
    entries = tables.select(ENTRY, newest, chain=job_chain(job), kind=str(kinds.ACKNOWLEDGED))
    return frozenset((entry.facts["run"], int(entry.facts["attempt"])) for entry in entries)


def title(run: RunRow) -> str:
    return f"run {run.id} of {run.job}"
