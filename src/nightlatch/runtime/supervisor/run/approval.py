"""A claim that waits for an approval, in the job's row: approved, refused or expired, and ended. Where each
machine has its own ledger (`store.lists_begun`), the row decides, since all machines share it."""

from __future__ import annotations

from ....core import advice, slots, statuses
from ....core import stage as stages
from ....core.row import APPROVER, RAN, SKIPPED, SlotRecord
from ....core.schedule import name_of
from ....core.stage import End
from ....core.value import replace
from ....errors import Busy, RunEnded
from ....store import proof, sightings
from ....system import identity
from .rows import KEPT, move_row, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....core.model import Record
    from ....core.protocols import Store
    from ....core.row import Claim, Row
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow


def end_claim(
    row: Row, claim: Claim, end: End, *, ran: bool, reason: str, run: str, host: str, now: float, store: Store,
    configured: str,
) -> Row:  # fmt: skip
    """The row with the claim ended, its slot's outcome recorded, and its end counted."""
    # When a row is set back to an earlier time, later records of older eras no longer count, unless they name a run.
    # A record without a run gets the row's era, not the claim's: it is newer than any set-back since the claim.
    record = SlotRecord(
        first=claim.slot, last=claim.slot, outcome=RAN if ran else SKIPPED, reason=reason, run=run, host=host, at=now,
        era=claim.era if ran or run else row.era,
    )  # fmt: skip
    return replace(
        stages.counted(row, end, now, configured),
        claim=replace(claim, ended=end.status, run=run, again_at=0.0),
        records=row.with_records(record, keep=KEPT if store.lists_begun else 0),
    )


def refused(row: Row, store: Store) -> Row:
    """The row after the plan that it holds was refused, or has expired: nothing of the plan lands."""
    claim = row.claim
    assert claim and claim.held
    ran = claim.held["what"] == stages.WRITES
    end = End(id=claim.id, status=statuses.CANCELLED, slot=name_of(claim.slot))
    return end_claim(
        row, claim, end, ran=ran, reason="" if ran else slots.WAITS, run=claim.run, host=identity.host(),
        now=store.clock(), store=store, configured="",
    )  # fmt: skip


def refuse(store: Store, ledger: Ledger, run: RunRow, *, even_if_approved: bool = True) -> bool:
    """Record in the row that the plan of this run is refused. False if the row does not hold that plan, or
    the plan is approved already (unless `even_if_approved`)."""
    while True:
        row = read_row(store, run.job)
        claim = held_claim(row, run, store)
        if row is None or claim is None or not claim.held:
            return False
        if not even_if_approved and APPROVER in claim.held:
            return False
        if move_row(store, ledger, row, refused(replace(row, claim=claim), store)):
            return True


def cancel(store: Store, ledger: Ledger, run: RunRow, request: Callable[[], RunRow]) -> RunRow:
    """Cancel a run for a person: `request` does it, and returns the run. If a plan of the run waits, it is refused and
    its workspace removed. Raises `RunEnded` if somebody has just approved the plan."""
    if run.held is not None and store.lists_begun and not refuse(store, ledger, run, even_if_approved=False):
        raise RunEnded(f"run {run.id} of {run.job} has just been approved", run)
    cancelled = request()
    if (run.held is not None or run.approved) and cancelled.status == statuses.CANCELLED:
        refuse(store, ledger, run)
        from ..publishing.held import discard

        discard(ledger, run.id)
    return cancelled


def held_claim(row: Row | None, run: RunRow, store: Store) -> Claim | None:
    """The row's claim, if it is this run's and waits for an approval. If a supervisor was killed after the plan was in
    the ledger and before it was in the row, the claim has no `held`; the returned claim has it added."""
    claim = row.claim if row else None
    if claim is None or not claim.is_open:
        return None
    if claim.held is not None:
        return claim if claim.run == run.id else None
    waits = run.held is not None or bool(run.approved)
    if not waits or name_of(claim.slot) != run.slot or claim.grant not in ("", run.grant):
        return None
    return replace(claim, held=plan_facts(run, store), run=run.id)


def approver_of(store: Store, run: RunRow) -> str:
    """The person who approved the run, if only the row knows that; else "". Where each machine has its own ledger, the
    approval is in the row first, and a process that is killed then does not record it in the ledger."""
    claim = held_claim(read_row(store, run.job), run, store) if store.lists_begun else None
    held = claim.held if claim else None
    return str(held.get(APPROVER, "")) if held and held["head"] == run.head else ""


def plan_facts(run: RunRow, store: Store, *, clean: bool = False) -> dict[str, Any]:
    """What the row records of a run that waits for an approval: `host` has its workspace, `head` names its plan."""
    what = stages.WRITES if run.attempt else stages.START
    host = run.holder.host if run.attempt and run.holder else identity.host() if store.lists_begun else ""
    return {"run": run.id, "host": host, "until": run.held or 0.0, "head": run.head, "what": what, "clean": clean}


def leave_approval(store: Store, ledger: Ledger, run: RunRow, by: str) -> None:
    """Record the approval in the row, where `serve` or `tick` of the machine with the workspace finds it."""
    while True:
        row = read_row(store, run.job)
        claim = held_claim(row, run, store)
        if row is None or claim is None or not claim.held:
            return
        if APPROVER in claim.held or move_row(
            store, ledger, row, replace(row, claim=replace(claim, held={**claim.held, APPROVER: by}))
        ):
            return


def take_over(store: Store, ledger: Ledger, run: RunRow, by: str) -> str:
    """Take over this run's claim, which waits for an approval, in order to land its plan; returns the claim's new id,
    "" if there is none. Raises `Busy` while another process lands it, and `RunEnded` if the row holds another plan."""
    while True:
        row = read_row(store, run.job)
        claim = held_claim(row, run, store)
        if row is None or claim is None:
            if store.lists_begun and run.held is not None:
                raise RunEnded(f"the plan of run {run.id} was refused on another machine, or has expired there", run)
            return ""
        assert claim.held
        if run.held is not None and claim.held["head"] != run.head:
            raise RunEnded(f"run {run.id} holds another plan by now. Look: {advice.command('show', run.id)}", run)
        record = store.read(run.job)
        if claim.grant and record and record.grant == claim.grant and not _is_over(record, store):
            raise Busy(f"run {run.id} of {run.job} is being worked on by {record.holder}", record)
        new = replace(
            claim, id=identity.new_id(), by=identity.host(), at=store.clock(), grant="", token=0, again_at=0.0,
            held={**claim.held, APPROVER: claim.held.get(APPROVER) or by},
        )  # fmt: skip
        if move_row(store, ledger, row, replace(row, claim=new)):
            return new.id


def _is_over(record: Record, store: Store) -> bool:
    """Is the lease's holder gone, or its time over? A killed holder leaves its grant in the record."""
    if record.left is not None and record.left <= 0:
        return True
    return proof.gone(record) or (record.left is None and sightings.lapsed(store.folder, record))
