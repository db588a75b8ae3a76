"""One look at the jobs' rows: decide what is due, move all rows at once, start what was claimed.

Any number of schedulers work on one store; none leads. Clock, store, ledger and processes are passed in.
"""

from __future__ import annotations

from ..core import definition, slots, statuses
from ..core import row as rows
from ..core.row import COLLAPSED, NEVER, SKIPPED, Row, SlotRecord
from ..core.schedule import name_of
from ..core.slots import Decision, Observation
from ..core.stage import UNATTENDED
from ..core.value import replace
from ..errors import RunEnded, StoreUnreachable
from ..ledger import kinds
from ..runtime.supervisor.run.counting import journal_stage
from ..runtime.supervisor.run.rows import KEPT
from .clocks import Steadiness
from .held import HeldPlans
from .leases import JobLeases
from .scheduled import due_before
from .watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..core.protocols import Store
    from ..core.row import Claim, Cursor, Move
    from ..core.slots import Due
    from ..ledger.ledger import Ledger
    from .clocks import Clocks
    from .scheduled import Scheduled

POLL = 2.0  # seconds until pauses, retries and edits by others are noticed
ALL = 600.0  # seconds between two looks at all rows: one that a wrong clock has moved ahead is not due
PASSED = 1000  # slots that a row lists as run before it was set back; for others there are done keys
# Where a look is a request to a remote: while another machine's claim is open, and otherwise.
POLL_CLAIMED, POLL_IDLE = 60.0, 300.0


class Scheduler:
    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        *,
        host: str,
        at_once: int,
        clocks: Clocks,
        new_id: Callable[[], str],
        start: Callable[[Scheduled, Claim], None],
        say: Callable[[str], None] = lambda _: None,
        leases: JobLeases | None = None,
    ) -> None:
        """`start` gives a claimed slot to a supervisor, without waiting for it."""
        self._store, self._ledger, self._host, self.at_once = store, ledger, host, at_once
        self._clocks, self._new_id, self._start, self._say = clocks, new_id, start, say
        self._leases = leases or JobLeases(store)
        self._steadiness = Steadiness(clocks)
        self._plans = HeldPlans(store, ledger, host)
        self._staged: dict[str, object] = {}  # job → the change of its stage that this ledger has
        self._apart = store.lists_begun  # each machine has a separate ledger and clock
        self.jobs: Mapping[str, Scheduled] = {}
        self._removed: set[str] = set()  # jobs that have left the file, and whose rows do not say so yet
        self.served: dict[str, str] = {}  # job → the mark of the definition that this machine last served
        self.shared = True  # may other machines have other files?
        self._unsynced: set[str] = set()
        self._watch = Watch(store.folder, clocks)
        self._struck: set[tuple[str, int]] = set()
        self._unread: set[str] = set()  # jobs whose rows only a newer program can read
        self._copied: dict[str, str] = {}  # job → the move whose records this ledger has
        self._next: dict[str, float] = {}  # job → when it is worth a look
        self.old: dict[str, str] = {}  # job → the definition in force, where ours is old
        self._others_claims = False
        self._looked_at_all = clocks.now()
        self.short_of_room = False  # something due waits for the end of a run

    def serve(self, jobs: Mapping[str, Scheduled], removed: Iterable[str] = ()) -> None:
        """Schedule these jobs from the next look on. `removed` were in the file before."""
        self.jobs = jobs
        self._removed = (self._removed | set(removed)) - jobs.keys()
        self._unsynced = set(jobs)
        self._next = {}

    def look(self, *, claims: bool = True) -> float:
        """Do what is due; returns the seconds until the next look. If it raises `StoreUnreachable`, nothing was
        started, and the slots wait.

        `claims`: False while nothing may be started.
        """
        self._steadiness.look()
        now = self._store.clock()
        self._note_sleep()
        if self._clocks.now() - self._looked_at_all > ALL:
            self._unsynced = set(self.jobs)
        cursors = self._store.cursors() if self._unsynced or self._removed else self._store.cursors(due=now)
        found = self._rows(cursors, now)
        plans = [plan for row in found if (plan := self._plan(row, now))]
        plans += [_Plan(None, self._new_row(self.jobs[job], now)) for job in sorted(self._missing(found))]
        plans += self._leaving(cursors, now)
        self._next |= {plan.new.job: plan.new.next_due for plan in plans if plan.row is None}
        room = self._room(found) if claims and not self._steadiness.just_woken else 0
        self.short_of_room = False
        moves: list[tuple[_Plan, Move]] = []
        for plan in sorted(plans, key=lambda plan: (plan.row or plan.new).next_due):
            if plan.decision is None and plan.row is not None:
                counted = self._takes_room(plan.row)  # a claim of ours that is taken over has its place already
                self._decide(plan, now, room > 0 or (counted and claims))
                self.short_of_room |= room <= 0 and plan.waits
                room -= plan.claims and not counted
            if plan.new is not plan.row:
                new_id = self._new_id()
                plan.new = replace(plan.new, by=self._host, claim=plan.claim(new_id, self._host))
                moves.append((plan, (plan.row or replace(plan.new, id="")).move_to(plan.new, new_id)))
        self._advance(moves)
        self._watch.keep()
        if self._unsynced:
            self._unsynced.clear()
            self._looked_at_all = self._clocks.now()
        return self._pause(now)

    # ── reading ──

    def _note_sleep(self) -> None:
        """How long this machine slept, once the store answers again."""
        while self._steadiness.slept:
            slept, until = self._steadiness.slept[0]
            self._ledger.note("", kinds.SLEPT, host=self._host, elapsed=round(slept), until=round(until))
            self._steadiness.slept.pop(0)

    def _rows(self, cursors: Iterable[Cursor], now: float) -> list[Row]:
        found = [row for cursor in cursors if cursor.job in self.jobs and (row := self._read(cursor))]
        self._others_claims = any(row.claim and row.claim.is_open and row.claim.by != self._host for row in found)
        self._leases.look([row.job for row in found if self._needs_lease(row, now)])
        if self._apart:
            self._copy(found)
        for row in found:
            if row.change and self._staged.get(row.job) != row.change["id"]:
                journal_stage(self._ledger, row)
                self._staged[row.job] = row.change["id"]
        for row in found:
            if row.strike and (row.job, row.era) not in self._struck:
                self._strike(row)
        return found

    def _read(self, cursor: Cursor) -> Row | None:
        """None: a newer program has moved it, and a move of ours would drop what it added."""
        try:
            return rows.read(cursor)
        except StoreUnreachable as error:
            if cursor.job not in self._unread:
                self._say(f"nothing is started for it here: {error}")
            self._unread.add(cursor.job)
            return None

    def _copy(self, found: Iterable[Row]) -> None:
        """Copy other machines' records from the rows to this ledger: their ledgers are separate."""
        new = [row for row in found if self._copied.get(row.job) != row.id]
        self._ledger.slots.put((row.job, record) for row in new for record in row.records)
        self._copied |= {row.job: row.id for row in new}

    def _needs_lease(self, row: Row, now: float) -> bool:
        return row.next_due <= now or (row.claim is not None and row.claim.is_open)

    def _missing(self, found: Iterable[Row]) -> set[str]:
        return self._unsynced - {row.job for row in found} - self._unread if self._unsynced else set()

    def _new_row(self, job: Scheduled, now: float) -> Row:
        """A new job begins with its next slot."""
        begin = float(int(now))
        row = Row(
            job=job.job.name, slot=begin, next_due=job.next(begin), schedule=job.text, definition=job.definition,
            stage=job.job.stage or UNATTENDED,
        )  # fmt: skip
        self.served[row.job] = definition.mark(row)
        return row

    def _room(self, found: Iterable[Row]) -> int:
        """How many runs may be started here. Those at work are known by their claims, also after a restart."""
        return self.at_once - sum(self._takes_room(row) for row in found)

    def _takes_room(self, row: Row) -> bool:
        claim = row.claim
        at_work = claim is not None and claim.is_open and not claim.again_at and claim.held is None
        return at_work and claim is not None and claim.by == self._host

    # ── deciding ──

    def _plan(self, row: Row, now: float) -> _Plan | None:
        job = self.jobs[row.job]
        standing = definition.judge(row, job.definition, self.served.get(row.job, ""), shared=self.shared)
        if standing == definition.OLD:
            if self.old.get(row.job) != row.definition:
                self._say(f"{row.job}: the definition here is old; nothing is started for it. git pull, or: "
                          f"nightlatch check --apply")  # fmt: skip
            self.old[row.job] = row.definition
            return None
        self.old.pop(row.job, None)
        plan = _Plan(row, row)
        if standing == definition.NEW:
            plan.new = definition.renewed(row, job.definition)
            if row.definition:
                plan.notes.append((kinds.DEFINED, {"definition": job.definition[:12], "was": row.definition[:12]}))
        self.served[row.job] = definition.mark(plan.new)
        if row.schedule != job.text:
            plan.new, plan.decision = self._edited(plan.new, job, now), Decision()
        return plan

    def _leaving(self, cursors: Iterable[Cursor], now: float) -> list[_Plan]:
        """Plans for jobs that have left the file, which would be overdue for ever."""
        found = [row for cursor in cursors if cursor.job in self._removed and (row := self._read(cursor))]
        for job in self._removed - {row.job for row in found if row.schedule}:
            self._forget(job)
        plans = [_Plan(row, self._edited(row, None, now)) for row in found if row.schedule]
        for plan in plans:
            plan.decision = Decision()
        return plans

    def _forget(self, job: str) -> None:
        self._removed.discard(job)
        self.served.pop(job, None)

    def _edited(self, row: Row, job: Scheduled | None, now: float) -> Row:
        """The row with another schedule, or none, from its next slot on; due slots of the old one are skipped."""
        begin = max(row.slot, float(int(now)))
        left = due_before(row.schedule, row.slot, now, row.passed)
        record: tuple[SlotRecord, ...] = ()
        if left:
            first, last, count = left
            record = (
                SlotRecord(
                    first=first, last=last, count=count, outcome=SKIPPED, reason=slots.EDITED, host=self._host, at=now,
                    era=row.era,
                ),
            )  # fmt: skip
        records = row.with_records(*record, keep=KEPT if self._apart else 0)
        next_due, text = (job.next(begin), job.text) if job else (NEVER, "")
        return replace(row, slot=begin, next_due=next_due, schedule=text, records=records)

    def _decide(self, plan: _Plan, now: float, room: bool) -> None:
        plan.new = self._plans.agreed(plan.new)
        row, job = plan.new, self.jobs[plan.new.job]
        due = self._due(row, job, now)
        unchanged = self._watch.unchanged(row.job, row.claim)
        decision = slots.decide(
            row,
            due,
            job.policy(self._host, due.newest if due else None),
            Observation(
                now=now,
                holder=self._leases.holder(row.job),
                unchanged=unchanged,
                patience=slots.UNBEGUN_WATCHED if self._apart else slots.UNBEGUN,
                room=room,
                steady=self._steadiness.steady,
                may_set_back=not self._apart or row.by == self._host,
                host=self._host,
                stepped=self._steadiness.stepped,
                may_expire=not self._apart or self._plans.may_expire(row, unchanged, job.job.expires),
            ),
        )
        plan.decision = decision
        if decision.set_back:
            plan.new = self._set_back(row, job, now)
            plan.notes.append((kinds.SET_BACK, {"was": row.slot, "to": now, "era": plan.new.era, "by": self._host}))
            return
        if decision.expire:
            plan.new = self._plans.expired(row)
            return
        if decision.hold_until:
            plan.new = self._plans.held_until(row, decision.hold_until)
            return
        if decision.cancel:
            self._cancel(row)
            row = self._with_cancel(row)
        self._next[row.job] = decision.look_at
        plan.new = self._changed(row, job, decision, due.following if due and decision.slot == due.newest else 0.0)

    def _due(self, row: Row, job: Scheduled, now: float) -> Due | None:
        over = row.paused is not None and 0 < row.paused.until <= now
        until = min(now, row.paused.until) if over and row.paused else now
        return job.due_from(row.next_due, until, row.passed) if row.next_due <= until else None

    def _changed(self, row: Row, job: Scheduled, decision: Decision, following: float) -> Row:
        if decision.unpause:
            row = replace(row, paused=None)
        if decision.records:
            records = [replace(record, host=self._host) for record in decision.records]
            row = replace(row, records=row.with_records(*records, keep=KEPT if self._apart else 0))
        if decision.slot is not None:
            slot, passed = decision.slot, tuple(one for one in row.passed if one > decision.slot)
            row = replace(row, slot=slot, next_due=following if following else job.next(slot), passed=passed)
            self._next[row.job] = row.next_due
        return replace(row) if decision.claim else row  # a claim is a move, also of a row that stays equal

    def _cancel(self, row: Row) -> None:
        """Request a cancel of the running run. Where its ledger is on another machine, see `_with_cancel`."""
        for run in self._ledger.runs(job=row.job, limit=20):
            if run.status in (statuses.RUNNING, statuses.WAITING) and not run.cancel and not run.approved:
                try:
                    self._ledger.request_cancel(run.id, f"overlap on {self._host}")
                except RunEnded:
                    pass  # it has ended meanwhile

    def _with_cancel(self, row: Row) -> Row:
        """Where each machine has a separate ledger, the holder finds the request in the row when it renews."""
        claim = row.claim
        if not self._apart or claim is None or not claim.is_open or claim.cancel:
            return row
        return replace(row, claim=replace(claim, cancel=f"overlap on {self._host}"))

    # ── clocks ──

    def _set_back(self, row: Row, job: Scheduled, now: float) -> Row:
        """The row without the moves of a clock that was ahead. Slots that ran stay run."""
        known = [*self._ledger.slots.of(row.job, now), *row.records]
        ran = {record.first for record in known if record.ran and record.first > now}
        if row.claim and row.claim.slot > now:
            ran.add(row.claim.slot)
        era, begin = row.era + 1, float(int(now))
        kept = tuple(_cut(record, job, begin) for record in row.records if record.ran or record.first <= begin)
        return replace(
            row, slot=begin, next_due=job.next(begin), era=era, strike=(begin, era), passed=tuple(sorted(ran)[:PASSED]),
            records=kept,
        )  # fmt: skip

    def _strike(self, row: Row) -> None:
        """Strike out this ledger's records of the time that does not count, before anything else is read."""
        assert row.strike
        job = self.jobs[row.job]
        time, era = row.strike
        self._ledger.slots.strike(row.job, time, int(era), lambda record: job.cut(record.first, time))
        self._struck.add((row.job, row.era))

    # ── moving and starting ──

    def _advance(self, moves: list[tuple[_Plan, Move]]) -> None:
        if not moves:
            return
        dropped = [(plan.row.job, record) for plan, _ in moves if plan.row and plan.row.records != plan.new.records
                   for record in plan.row.records]  # fmt: skip
        self._ledger.slots.put(dropped)
        sent = [move for _, move in moves]
        try:
            won = self._store.advance(sent)
        except StoreUnreachable:
            won = self._store.advance(sent)  # maybe only the reply was lost: then each row has our id
        for (plan, _), mine in zip(moves, won, strict=True):
            job = plan.new.job
            if job in self._removed:
                if mine:
                    self._say(f"{job} is no longer in the file, so it is no longer due")
                    self._forget(job)
                continue
            if not mine:
                self._next[job] = self.jobs[job].next(self._store.clock())  # another was faster
                continue
            if plan.claims and plan.new.claim:
                self._watch.see(job, plan.new.claim)
                self._start(self.jobs[job], plan.new.claim)
            for kind, facts in plan.notes:
                self._ledger.note(job, kind, **facts)
            self._say_skipped(plan)

    def _say_skipped(self, plan: _Plan) -> None:
        for record in plan.decision.records if plan.decision else ():
            if record.outcome != COLLAPSED:
                self._say(f"{plan.new.job}: {name_of(record.last)} skipped ({record.reason})")

    def _pause(self, now: float) -> float:
        """Until the next look: the next due time, or the next poll."""
        poll = POLL if not self._apart else POLL_CLAIMED if self._others_claims else POLL_IDLE
        known = [at for job in self.jobs if (at := self._next.get(job, 0.0)) > now]
        return max(min([poll, *(at - now for at in known)]), 0.01)


class _Plan:
    """A row, and what it becomes."""

    def __init__(self, row: Row | None, new: Row) -> None:
        self.row, self.new = row, new
        self.decision: Decision | None = None
        self.notes: list[tuple[str, dict[str, object]]] = []

    @property
    def claims(self) -> bool:
        return self.decision is not None and self.decision.claim is not None

    def claim(self, move: str, host: str) -> Claim | None:
        """The claim of the row after the move; a new one has the move's id."""
        if self.decision is None or self.decision.claim is None:
            return self.new.claim
        return replace(self.decision.claim, id=move, by=host)

    @property
    def waits(self) -> bool:
        """Does it wait for room, or for something that has no known time?"""
        return self.decision == Decision()


def _cut(record: SlotRecord, job: Scheduled, time: float) -> SlotRecord:
    if record.ran or record.last <= time:
        return record
    last, count = job.cut(record.first, time)
    return replace(record, last=last, count=count)
