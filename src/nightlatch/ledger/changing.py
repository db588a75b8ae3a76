"""Changing a run's status without a token: a compare-and-set on the run as it was seen, recorded on its job's chain."""

from __future__ import annotations

from ..core import statuses
from .chain import clean
from .records import RUN, RunRow

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
        raise ValueError(f"{run.title} is {run.status}: {status} cannot follow that")
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


def anchor(chain: ChainTransaction, run: str, kind: str, **facts: object) -> RunRow:
    """Append an entry about a run to its job's chain, and keep the chain's new head in the run's row."""
    anchor = chain.append(kind, run=run, **facts)
    return RUN.read(chain(_ANCHOR, id=run, anchor=anchor)[0])
