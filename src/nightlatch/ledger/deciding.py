"""What people decide and observers see. No token: a compare-and-set on the run's state, on its job's chain,
with who did it."""

from __future__ import annotations

from ..core import advice, states
from ..errors import RunEnded, UsageError
from . import kinds
from .chain import clean
from .model import RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Run
    from .tables import Tables

ANCHOR = f"UPDATE {{prefix}}run SET anchor = :anchor WHERE id = :id RETURNING {RUN.names}"

# A holder's late verdict, another person's decision or a new attempt in between changes one of these three.
_CHANGE = """
UPDATE {prefix}run SET state = :state, cancel = :cancel, reason = :reason, changed = :at, due = NULL,
  ended = CASE WHEN :ends = 1 THEN :at ELSE ended END
WHERE id = :id AND state = :was_state AND attempt = :was_attempt AND cancel = :was_cancel RETURNING id
"""
# The attempt that a person calls a success is one: what is done `--again` begins after it, from the beginning.
_SUCCEEDED = """
UPDATE {prefix}attempt SET state = 'succeeded',
  reason = CASE WHEN reason = '' THEN :reason ELSE reason || '; ' || :reason END
WHERE run = :run AND attempt = :attempt
"""
_ASK = """
UPDATE {prefix}run SET cancel = :cancel
WHERE id = :id AND state = 'running' AND attempt = :was_attempt AND cancel = '' RETURNING id
"""


def change(
    tables: Tables, run: Run, state: str, kind: str, *, reason: str | None = None, cancel: str = "", **facts: object
) -> Run | None:
    """Move the run to `state` if it still stands as it was seen; None, and nothing moved, if not. `cancel`: who asked
    for its end."""
    assert states.may_follow(run.state, state), f"{state} cannot follow {run.state}"
    with tables.on_chain(run.job) as chain:
        moved = chain(
            _CHANGE,
            id=run.id,
            was_state=run.state,
            was_attempt=run.attempt,
            was_cancel=run.cancel,
            state=state,
            cancel="" if state == states.PENDING else clean(cancel) or run.cancel,
            reason=run.reason if reason is None else clean(reason),
            ends=int(state not in states.OPEN),
            at=chain.at,
        )
        if not moved:
            return None
        if state == states.SUCCEEDED:
            chain(_SUCCEEDED, run=run.id, attempt=run.attempt, reason=clean(reason or ""))
        anchor = chain.append(
            kind,
            run=run.id,
            was=run.state,
            state=state,
            seq=run.seq,
            head=run.head,
            reason=reason,
            cancel=cancel or None,
            **facts,
        )
        return RUN.read(chain(ANCHOR, id=run.id, anchor=anchor)[0])


def ask_to_end(tables: Tables, run: Run, by: str) -> Run | None:
    """Leave word for the holder of a running run. None if it does not run any more, or was asked already."""
    with tables.on_chain(run.job) as chain:
        if not chain(_ASK, id=run.id, was_attempt=run.attempt, cancel=clean(by)):
            return None
        anchor = chain.append(kinds.CANCEL_REQUESTED, run=run.id, by=by)
        return RUN.read(chain(ANCHOR, id=run.id, anchor=anchor)[0])


def cancel(tables: Tables, run: Run, by: str) -> Run | None:
    if run.state == states.RUNNING:
        return run if run.cancel else ask_to_end(tables, run, by)
    if run.state in states.OPEN:
        return end(tables, run, f"cancelled by {by}", by, person=True)
    if states.needs_person(run.state):
        raise RunEnded(f"{title(run)} is {run.state}: say how it ended, with {advice.command('resolve', run.id)}", run)
    raise RunEnded(f"{title(run)} has ended already: {run.state}", run)


def end(tables: Tables, run: Run, reason: str, by: str, *, person: bool) -> Run | None:
    """Cancel what nobody works on. `person`: somebody asked for it."""
    cancel = by if person else ""
    return change(tables, run, states.CANCELLED, kinds.CANCELLED, reason=reason, cancel=cancel, by=by)


def resolve(tables: Tables, run: Run, outcome: str, by: str) -> Run | None:
    if outcome not in (states.SUCCEEDED, states.FAILED, states.CANCELLED):
        raise UsageError(f"a run cannot be resolved as {outcome!r}: use succeeded, failed or cancelled")
    if not states.needs_person(run.state):
        raise RunEnded(f"{title(run)} is {run.state}: only what is in doubt or needs attention can be resolved", run)
    return change(tables, run, outcome, kinds.RESOLVED, reason=f"resolved as {outcome} by {by}", by=by)


def retry(tables: Tables, run: Run, by: str) -> Run | None:
    if run.state == states.IN_DOUBT:
        raise RunEnded(
            f"{title(run)} is in doubt: it may have acted. Look, then {advice.command('resolve', run.id)} first", run
        )
    if run.state == states.SUCCEEDED:
        raise RunEnded(f"{title(run)} succeeded: to do it once more, {advice.command('run', rest='… --again')}", run)
    if run.state == states.RUNNING:
        raise RunEnded(f"{title(run)} is running, by {run.holder}", run)
    return run if run.state == states.PENDING else change(tables, run, states.PENDING, kinds.RETRIED, by=by)


def attention(tables: Tables, run: Run, reason: str, by: str) -> Run | None:
    if run.state not in (states.PENDING, states.WAITING):
        raise RunEnded(f"{title(run)} is {run.state}", run)
    return change(tables, run, states.NEEDS_ATTENTION, kinds.NEEDS_ATTENTION, reason=reason, by=by)


def title(run: Run) -> str:
    return f"run {run.id} of {run.job}"
