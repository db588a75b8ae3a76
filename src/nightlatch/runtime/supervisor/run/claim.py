"""The supervisor's side of a claim: it was started for a slot, by a scheduler that may be gone since.

    begin (holding the lease, before the ledger is sealed) → the attempt → end, or wait (before the lease is released)

Each is a move of the job's row that compares the claim's id, and that it has not ended. One that was taken over
meanwhile misses: then nothing is started.
"""

from __future__ import annotations

from ....core import row as rows
from ....core import slots, statuses
from ....core.job import SKIP
from ....core.retry import STARTS
from ....core.row import RAN, SKIPPED, SlotRecord
from ....core.schedule import name_of
from ....core.value import replace
from ....errors import Busy, Error, InDoubt, StoreUnreachable
from ....ledger import open_for
from ....store import url
from ....system import clock, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....core.job import Job
    from ....core.protocols import Store
    from ....core.row import Claim, Row
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict

LOOK_AGAIN = 10.0  # seconds until a claim that found the lease held is tried again
KEPT = 50  # records that a row keeps where each machine has a ledger of its own
_FAILED = (*statuses.FAILURES, *statuses.NEEDS_PERSON)


class Claimed:
    def __init__(self, job: Job, claim: str) -> None:
        self.job, self.id = job, claim
        self.gives_up = False  # too many starts came to nothing: a person has to look
        self._attempts = 0  # of the run, before this start
        self.over = False  # ended, or another's by now

    # ── before the lease ──

    def closed_by(self, known: RunRow | None) -> bool:
        """Has the run of this slot ended already, or may no more attempts of it be made by a schedule? A lost one may
        be tried again, where the job says so."""
        self._attempts = known.attempt if known else 0
        if known is None or not statuses.is_terminal(known.status):
            return False
        if known.status != statuses.LOST or self.job.when_lost == "doubt":
            return True
        return known.attempt >= max(STARTS, self.job.retries + 1)

    def begin(self, store: Store, ledger: Ledger, lease: Lease) -> None:
        """Write the grant into the claim; raises `Busy` if another has taken it over, or ended it."""

        def begun(row: Row, claim: Claim) -> Row:
            self.gives_up = claim.starts > STARTS
            return replace(
                row, claim=replace(claim, grant=lease.grant, token=lease.token, attempted=True, again_at=0.0)
            )

        if not self._move(store, ledger, begun):
            raise Busy(f"{self.job.name} ({self.job.key}): the claim was taken over; nothing is started here")

    # ── at the end ──

    def settle(self, store: Store, ledger: Ledger, verdict: Verdict) -> None:
        """What the verdict means for the claim: it ends, or it waits for the next try."""
        if verdict.status == statuses.WAITING:
            self.wait(store, ledger, verdict.due)
        elif verdict.status == statuses.LOST and self.job.when_lost == "again":
            self.wait(store, ledger, store.clock())  # by the next one that finds it
        elif verdict.status not in (statuses.RUNNING, statuses.PENDING):
            made = verdict.attempt if not self.gives_up else self._attempts
            status = statuses.SUCCEEDED if verdict.status == "skipped" else verdict.status
            reason = "" if made else slots.NOT_STARTED
            self.end(
                store, ledger, status, ran=bool(made) or status == statuses.SUCCEEDED, reason=reason, run=verdict.run
            )

    def settle_here(self, store: str | None, verdict: Verdict) -> None:
        """The same between two tries, when nothing is held or open."""
        where = url.resolve(store)
        self.settle(url.connect(where), open_for(where), verdict)

    def end(self, store: Store, ledger: Ledger, status: str, *, ran: bool, reason: str = "", run: str = "") -> None:
        now, host = store.clock(), identity.host()

        def ended(row: Row, claim: Claim) -> Row:
            record = SlotRecord(
                first=claim.slot, last=claim.slot, outcome=RAN if ran else SKIPPED, reason=reason, run=run, host=host,
                at=now, era=claim.era,
            )  # fmt: skip
            keep = KEPT if store.lists_begun else 0
            return replace(
                _counted(row, claim, status, now),
                claim=replace(claim, ended=status, run=run, again_at=0.0),
                records=row.with_records(record, keep=keep),
            )

        self._move(store, ledger, ended)
        self.over = True

    def wait(self, store: Store, ledger: Ledger, until: float) -> None:
        """For the next try, by this supervisor or by the one that finds it overdue."""

        def waiting(row: Row, claim: Claim) -> Row:
            # What is due now has to differ from what does not wait.
            return replace(row, claim=replace(claim, again_at=max(until, 1.0), grant="", token=0, starts=0))

        self._move(store, ledger, waiting)

    # ── when there is no attempt ──

    def not_begun(self, store: Store, ledger: Ledger, why: Error) -> None:
        """Nothing was started, for a reason that is not a lost start."""
        if self.over or isinstance(why, StoreUnreachable):
            return  # the one that finds the claim starts it again
        if isinstance(why, Busy):
            self._held(store, ledger, why)
        elif isinstance(why, InDoubt):
            known = ledger.find(self.job.name, self.job.key)
            status = known.status if known else statuses.NEEDS_ATTENTION
            self.end(store, ledger, status, ran=self._attempts > 0, run=known.id if known else "")
        else:
            self.end(store, ledger, statuses.FAILED, ran=False, reason=f"{slots.NOT_STARTED}: {why}"[:500])

    def _held(self, store: Store, ledger: Ledger, busy: Busy) -> None:
        known = ledger.find(self.job.name, self.job.key)
        if known and known.status == statuses.WAITING and known.due:
            return self.wait(store, ledger, known.due)
        holder = _key_of_holder(ledger, busy)
        if self._attempts or not holder or holder == self.job.key or self.job.overlap != SKIP:
            return self.wait(store, ledger, store.clock() + LOOK_AGAIN)
        return self.end(store, ledger, statuses.CANCELLED, ran=False, reason=slots.OVERLAP)

    # ── moving the row ──

    def _move(self, store: Store, ledger: Ledger, change: Callable[[Row, Claim], Row]) -> bool:
        """Change the row as long as the claim is ours and open; False if it is not."""
        while True:
            row = read_row(store, self.job.name)
            claim = row.claim if row else None
            if row is None or claim is None or claim.id != self.id or not claim.is_open:
                self.over = True
                return False
            if move_row(store, ledger, row, change(row, claim)):
                return True


def read_row(store: Store, job: str) -> Row | None:
    found = store.cursors([job])
    return rows.read(found[0]) if found else None


def move_row(store: Store, ledger: Ledger, row: Row, new: Row) -> bool:
    """Move a row to what `new` says; False, and nothing moved, if somebody else has moved it since it was read.

    The records that it drops are in the ledger before: nobody else might know of them.
    """
    if new.records != row.records:
        ledger.slots.put((row.job, record) for record in row.records)
    facts: dict[str, Any] = {name: value for name, value in new.__dict__.items() if name not in ("job", "id")}
    move = row.move(identity.new_id(), **(facts | {"by": identity.host()}))
    try:
        won = store.advance([move])[0]
    except StoreUnreachable:
        clock.sleep(0.2)
        won = store.advance([move])[0]  # only the reply may be lost: sent again, it finds its own id
    if won and new.records != row.records:
        ledger.slots.put((row.job, record) for record in new.records)
    return won


def _counted(row: Row, claim: Claim, status: str, now: float) -> Row:
    """The row, with one end more."""
    if claim.id in row.counted:
        return row
    counters = {**(row.counters or {})}
    counters[status] = counters.get(status, 0) + 1
    row = replace(row, counters=counters, counted=(claim.id, *row.counted)[: rows.ENDS])
    if status == statuses.SUCCEEDED:
        return replace(row, failures=0, failed_at=0.0, last_success=max(row.last_success, name_of(claim.slot)))
    if status in _FAILED:
        return replace(row, failures=row.failures + 1, failed_at=now)
    return row


def _key_of_holder(ledger: Ledger, busy: Busy) -> str:
    """The key that the lease's holder works on; "": on none, as one that resolves or reaps."""
    record = busy.record
    if record is None or not record.grant:
        return ""
    listed = [one.key for one in record.begun if one.token == record.token]
    running = ledger.runs(job=record.name, status=statuses.RUNNING, limit=20)
    return next((run.key for run in running if run.grant == record.grant), listed[0] if listed else "")
