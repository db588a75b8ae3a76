"""The supervisor's side of a claim: a scheduler, which may be gone by now, started this supervisor for a slot.

    begin (holding the lease, before the ledger is sealed) → the attempt → end, or wait (before the lease is released)

Each is a move of the job's row, made only while the claim has our id and is open. If another process has taken the
claim over, nothing is started.
"""

from __future__ import annotations

from _thread import start_new_thread

from ....core import slots, statuses
from ....core import stage as stages
from ....core.job import CANCEL, SKIP, Job
from ....core.retry import GAVE_UP, STARTS
from ....core.row import APPROVER
from ....core.schedule import name_of
from ....core.stage import End
from ....core.value import replace
from ....errors import Busy, Error, InDoubt, RunEnded, StoreUnreachable
from ....ledger import open_for
from ....store import url
from ....system import clock, identity
from ...shared.job import definition
from . import counting
from .approval import end_claim, plan_facts
from .rows import move_row, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.protocols import Store
    from ....core.row import Claim, Row
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict

LOOK_AGAIN = 10.0  # seconds until a claim that found the lease held is tried again


class Claimed:
    def __init__(self, job: Job, claim: str) -> None:
        self.job, self.id = job, claim
        self.gives_up = False  # too many starts came to nothing: a person has to look
        self._attempts = 0  # how many the run had before this start
        self.closed = False  # ended, or taken over
        self.stage = ""  # the job's stage when the claim was begun
        self.holding = False  # the run's writes wait for an approval
        self.clean = self.own_cap = False  # as in `End`
        self._row: Row | None = None  # the job's, as this process last read or moved it

    # ── before the lease ──

    def closed_by(self, known: RunRow | None, publishes: bool = False) -> bool:
        """Has the run of this slot ended, so that a schedule makes no more attempts? A lost run may be tried again, a
        limited number of times, if the job says so; a lost run that only `publishes`, always."""
        self._attempts = _attempts_begun(known)
        if known is None or not statuses.is_terminal(known.status):
            return False
        if known.status == statuses.LOST and publishes:
            return False
        if known.status != statuses.LOST or self.job.when_lost == "doubt":
            return True
        return known.attempt >= max(STARTS, self.job.retries + 1)

    def begin(self, store: Store, ledger: Ledger, lease: Lease) -> None:
        """Write the grant into the claim; raises `Busy` if another process has taken it over, or ended it."""

        def begun(row: Row, claim: Claim) -> Row:
            self.gives_up = claim.starts > STARTS
            self.stage = stages.of(row, self.job.stage)
            self.holding = self._holds(row, claim) == stages.WRITES
            self.clean = bool(claim.held and claim.held.get("clean"))
            return replace(
                row, claim=replace(claim, grant=lease.grant, token=lease.token, attempted=True, again_at=0.0)
            )

        if not self._move(store, ledger, begun):
            raise Busy(f"{self.job.name} ({self.job.key}): the claim was taken over; nothing is started here")

    def follow_cancel(self, store: Store, ledger: Ledger, lease: Lease) -> None:
        """Where each machine has its own ledger, a scheduler elsewhere leaves a request in the row to end this run for
        a newer slot. A thread reads the row as often as the lease is renewed, and requests the end in this ledger."""
        if not store.lists_begun or self.job.overlap != CANCEL:
            return

        def follow() -> None:
            while not (self.closed or lease.lost):
                look_at = clock.now() + lease.ttl / 3
                while clock.now() < look_at and not (self.closed or lease.lost):
                    clock.sleep(look_at - clock.now())
                try:
                    row = read_row(store, self.job.name)
                    run = ledger.find(self.job.name, self.job.key)
                    if row and row.claim and row.claim.id == self.id and row.claim.cancel and run:
                        ledger.decisions.request_cancel(run.id, row.claim.cancel)
                        return
                except (StoreUnreachable, RunEnded):
                    continue

        start_new_thread(follow, ())

    def waits_unstarted(self, store: Store) -> bool:
        """Must the run be approved before its command is started?"""
        row = self._row = read_row(store, self.job.name)
        claim = row.claim if row else None
        return row is not None and claim is not None and self._holds(row, claim) == stages.START

    def _approved(self, store: Store) -> str:
        """What was approved: the run's writes or its start; "": nothing."""
        row = read_row(store, self.job.name)
        held = row.claim.held if row and row.claim else None
        return str(held["what"]) if held and APPROVER in held else ""

    def _holds(self, row: Row, claim: Claim) -> str:
        """What the run holds back until it is approved: its writes, its start or nothing."""
        if claim.held and APPROVER in claim.held:
            return stages.NOTHING
        return stages.held_back(stages.of(row, self.job.stage), self.job.holds)

    # ── at the end ──

    def settle(self, store: Store, ledger: Ledger, verdict: Verdict) -> None:
        """End the claim, or let it wait for an approval or its next try, as the verdict says."""
        if verdict.held:
            self.hold(store, ledger, verdict)
        elif verdict.status == statuses.WAITING:
            self.wait(store, ledger, verdict.due)
        elif verdict.status == statuses.LOST and (
            self.job.when_lost == "again" or self._approved(store) == stages.WRITES
        ):
            self.leave(store, ledger, store.clock())
        elif verdict.status not in (statuses.RUNNING, statuses.PENDING):
            attempts = verdict.attempt if not self.gives_up else self._attempts
            status = statuses.SUCCEEDED if verdict.status == "skipped" else verdict.status
            reason = "" if attempts else slots.NOT_STARTED
            self.end(
                store,
                ledger,
                status,
                ran=bool(attempts) or status == statuses.SUCCEEDED,
                reason=reason,
                run=verdict.run,
            )

    def settle_here(self, store: str | None, verdict: Verdict) -> None:
        """As `settle`, between two tries, when no lease is held and no store is open."""
        where = url.resolve(store)
        self.settle(url.connect(where), open_for(where), verdict)

    def end(self, store: Store, ledger: Ledger, status: str, *, ran: bool, reason: str = "", run: str = "") -> None:
        now, host = store.clock(), identity.host()
        end: End | None = None  # made once, however often the move is tried

        def ended(row: Row, claim: Claim) -> Row:
            nonlocal end
            end = end or self._end(claim, status)
            return end_claim(
                row, claim, end, ran=ran, reason=reason, run=run, host=host, now=now, store=store,
                configured=self.job.stage,
            )  # fmt: skip

        moved = self._move(store, ledger, ended)
        if moved and end:
            counting.journal(ledger, *moved, end, self.job.stage, run)
        self.closed = True

    def _end(self, claim: Claim, status: str) -> End:
        return End(
            id=claim.id, status=status, slot=name_of(claim.slot), definition=definition(self.job), stage=self.stage,
            clean=self.clean and status == statuses.SUCCEEDED, own_cap=self.own_cap,
        )  # fmt: skip

    def hold(self, store: Store, ledger: Ledger, verdict: Verdict) -> None:
        """Let the claim wait for an approval, without which nothing more of the run is started."""
        run = ledger.run(verdict.run)
        if run is None or run.held is None:
            return  # decided meanwhile, as the next look at the row will find
        held = plan_facts(run, store, clean=self.clean)

        def waiting(row: Row, claim: Claim) -> Row:
            return replace(row, claim=replace(claim, held=held, run=run.id, grant="", token=0, starts=1, again_at=0.0))

        self._move(store, ledger, waiting)

    def wait(self, store: Store, ledger: Ledger, until: float) -> None:
        """Let the claim wait for its next try by this supervisor; any scheduler may make the try when it is overdue."""

        def waiting(row: Row, claim: Claim) -> Row:
            # 0 means that it does not wait, so a try that is due now gets a later time.
            return replace(row, claim=replace(claim, again_at=max(until, 1.0), grant="", token=0, starts=0))

        self._move(store, ledger, waiting)

    def leave(self, store: Store, ledger: Ledger, until: float) -> None:
        """Let any scheduler make the next try at `until`: this supervisor does not wait, so it gets no head start."""
        self.wait(store, ledger, until - slots.OVERDUE_TRY)

    # ── when there is no attempt ──

    def note_not_begun(self, store: Store, ledger: Ledger, why: Error) -> None:
        """Record why nothing was started, unless the store was unreachable."""
        if self.closed or isinstance(why, StoreUnreachable):
            return  # the scheduler that finds the claim starts it again
        if isinstance(why, Busy):
            self._note_lease_held(store, ledger, why)
        elif isinstance(why, InDoubt):
            known = ledger.find(self.job.name, self.job.key)
            status = known.status if known else statuses.NEEDS_ATTENTION
            ran, run = _attempts_begun(known) > 0, known.id if known else ""
            self.end(store, ledger, status, ran=ran, reason="" if ran else slots.NOT_STARTED, run=run)
        else:
            self.end(store, ledger, statuses.FAILED, ran=False, reason=f"{slots.NOT_STARTED}: {why}"[:500])

    def _note_lease_held(self, store: Store, ledger: Ledger, busy: Busy) -> None:
        known = ledger.find(self.job.name, self.job.key)
        if known and known.status == statuses.WAITING and known.due:
            return self.leave(store, ledger, known.due)
        if self._approved(store):  # an approved plan is not ended for a newer slot
            return self.leave(store, ledger, store.clock() + LOOK_AGAIN)
        holder = _key_of_holder(ledger, busy)
        if self._attempts or not holder or holder == self.job.key or self.job.overlap != SKIP:
            return self.leave(store, ledger, store.clock() + LOOK_AGAIN)
        return self.end(store, ledger, statuses.CANCELLED, ran=False, reason=slots.OVERLAP)

    # ── moving the row ──

    def _move(self, store: Store, ledger: Ledger, change: Callable[[Row, Claim], Row]) -> tuple[Row, Row] | None:
        """Change the row if the claim is ours and open; returns the row before and after. None: the claim is not.

        The row that we know is tried first: a move of any other process since then makes ours miss.
        """
        row, self._row = self._row, None
        while True:
            row = row or read_row(store, self.job.name)
            claim = row.claim if row else None
            if row is None or claim is None or claim.id != self.id or not claim.is_open:
                self.closed = True
                return None
            new = change(row, claim)
            self._row = move_row(store, ledger, row, new)
            if self._row:
                return row, new
            row = None


def _attempts_begun(known: RunRow | None) -> int:
    """How many attempts of the run were begun; an attempt that gave the slot up started nothing."""
    if known is None:
        return 0
    gave_up = known.status == statuses.NEEDS_ATTENTION and known.reason == GAVE_UP
    return known.attempt - gave_up


def _key_of_holder(ledger: Ledger, busy: Busy) -> str:
    """The key that the lease's holder works on; "": none, as in `resolve` and `reap`."""
    record = busy.record
    if record is None or not record.grant:
        return ""
    listed = [one.key for one in record.begun if one.token == record.token]
    running = ledger.history.runs(job=record.name, status=statuses.RUNNING, limit=20)
    return next((run.key for run in running if run.grant == record.grant), listed[0] if listed else "")
