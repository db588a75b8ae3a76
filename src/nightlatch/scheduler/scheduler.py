"""One look at the jobs' rows: decide what is due, move all rows at once, start what was claimed.

Any number of schedulers work on one store; none leads. Clock, store, ledger and processes are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ..core import definition, slots, statuses
from ..core.protocols import Store
from ..core.row import COLLAPSED, Claim, Cursor, Move, Row
from ..core.schedule import name_of
from ..core.slots import Decision, Due, Observation
from ..core.stage import UNATTENDED
from ..core.value import replace
from ..errors import RunEnded, StoreUnreachable
from ..ledger import kinds
from ..ledger.ledger import Ledger
from ..runtime.supervisor.run.rows import KEPT
from . import row_plan
from .clocks import Clocks, Steadiness
from .held import HeldPlans
from .leases import JobLeases
from .look_times import LookTimes
from .row_plan import RowPlan
from .row_reader import RowReader
from .scheduled import Scheduled
from .watch import Watch

POLL = 2.0  # seconds until pauses, retries and edits by others are noticed
_ALL_ROWS_EVERY = 600.0  # seconds between two looks at all rows: one that a wrong clock moved ahead never becomes due
# In place of `POLL`, if a look is a request to a remote: while another machine's claim is open, and otherwise.
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
        self._separate_ledgers = store.lists_begun  # then machines do not share a clock either
        self._keep = KEPT if self._separate_ledgers else 0
        self._leases = leases or JobLeases(store)
        self._steadiness = Steadiness(clocks)
        self._plans = HeldPlans(store, ledger, host)
        self._reader = RowReader(ledger, separate_ledgers=self._separate_ledgers, say=say)
        self._watch = Watch(store.folder, clocks)
        self.jobs: Mapping[str, Scheduled] = {}
        self._removed: set[str] = set()  # jobs no longer in nightlatch.toml, whose rows still have a schedule
        self.served: dict[str, str] = {}  # job → `last_served` of `definition.judge`
        self.remember_served: Callable[[], None] = lambda: None  # writes `served` to the disk
        self.shared = True  # may other machines have another nightlatch.toml?
        self._old: dict[str, str] = {}  # job → the definition in force, for jobs whose definition here is old
        self._unsynced: set[str] = set()  # jobs whose rows are read at the next look even if they are not due
        self._looked_at_all = clocks.now()
        self._times = LookTimes()
        self._next_look = 0.0  # when all that is due is looked at again
        self._waiting: list[str] = []  # due jobs that wait for room, the oldest first
        self._others_claims = False

    def serve(self, jobs: Mapping[str, Scheduled], removed: Iterable[str] = ()) -> None:
        """Schedule these jobs from the next look on. `removed`: jobs that were in nightlatch.toml before."""
        self.jobs = jobs
        self._removed = (self._removed | set(removed)) - jobs.keys()
        self._unsynced = set(jobs)
        self._times = LookTimes()
        self._next_look = 0.0

    def look(self) -> float:
        """Do what is due; returns the seconds until the next look. If it raises `StoreUnreachable`, nothing was
        started, and the slots wait."""
        now = self._begin()
        if self._clocks.now() - self._looked_at_all > _ALL_ROWS_EVERY:
            self._unsynced = set(self.jobs)
        cursors = self._store.cursors() if self._unsynced or self._removed else self._store.cursors(due=now)
        found = self._rows(cursors, now)
        self._others_claims = any(row.claim and row.claim.is_open and row.claim.by != self._host for row in found)
        added = [RowPlan(None, self._new_row(self.jobs[job], now), Decision()) for job in sorted(self._missing(found))]
        for plan in added:
            self._times.set(plan.new.job, plan.new.next_due)
        self._waiting = []
        self._settle(found, [*added, *self._plans_for_removed(cursors, now)], now, self._room(found))
        self._watch.keep()
        if self._unsynced:
            self._unsynced = set()
            self._looked_at_all = self._clocks.now()
        pause = self._pause(now)
        self._next_look = self._clocks.now() + pause
        return pause

    def start_waiting(self, ended: Collection[str]) -> float:
        """Runs of these jobs have ended: start what waits for them or for room, as `look` would, without reading all
        that is due. Returns the seconds until the next look."""
        if self._separate_ledgers or self._clocks.now() >= self._next_look:
            return self.look()
        now = self._begin()
        at_work = self._store.cursors(due=0.0)  # rows with an open claim are always due
        room = self._room(self._reader.read(at_work, self.jobs))
        jobs = set(ended)
        while True:
            jobs.update(self._waiting[: max(room, 0)])
            self._waiting = self._waiting[max(room, 0) :]
            room = self._settle(self._rows(self._store.cursors(sorted(jobs)), now), [], now, room)
            if room <= 0 or not self._waiting:
                return min(self._pause(now), self._next_look - self._clocks.now())
            jobs.clear()

    @property
    def short_of_room(self) -> bool:
        """Does something that is due wait for the end of a run?"""
        return bool(self._waiting)

    def _begin(self) -> float:
        """Look at the clocks; returns the store's time, which decides what is due."""
        self._steadiness.look()
        now = self._store.clock()
        self._note_sleep()
        return now

    def _settle(self, found: Iterable[Row], decided: Iterable[RowPlan], now: float, room: int) -> int:
        """Decide about the rows, the one that has been due for longest first; move them; start what is claimed. Returns
        the room that is left."""
        moves: list[tuple[RowPlan, Move]] = []
        view = self._observation(now)
        view_if_full = replace(view, room=False)
        for row in sorted(found, key=lambda row: row.next_due):
            plan = self._plan(row, now)
            if plan is None:
                continue
            if plan.decision is None:
                counted = self._takes_room(row)  # a claim of ours that is taken over takes room already
                self._decide(plan, view if room > 0 or counted else view_if_full)
                if plan.waits and room <= 0:
                    self._waiting.append(row.job)
                room -= plan.claims and not counted
            if plan.new is not row:
                moves.append(self._move(plan))
        self._advance([*moves, *map(self._move, decided)])
        return room

    # ── reading ──

    def _note_sleep(self) -> None:
        """Journal how long this machine slept; if the ledger does not answer, the next look tries again."""
        while self._steadiness.slept:
            slept, until = self._steadiness.slept[0]
            self._ledger.journal.note("", kinds.SLEPT, host=self._host, elapsed=round(slept), until=round(until))
            self._steadiness.slept.pop(0)

    def _rows(self, cursors: Iterable[Cursor], now: float) -> list[Row]:
        found = self._reader.read(cursors, self.jobs)
        self._leases.look([row.job for row in found if self._needs_lease(row, now)])
        self._reader.update_ledger(found, self.jobs, again=bool(self._unsynced))
        return found

    def _needs_lease(self, row: Row, now: float) -> bool:
        return row.next_due <= now or (row.claim is not None and row.claim.is_open)

    def _room(self, found: Iterable[Row]) -> int:
        """How many runs may be started here."""
        return 0 if self._steadiness.just_woken else self.at_once - sum(map(self._takes_room, found))

    def _takes_room(self, row: Row) -> bool:
        return row_plan.takes_room(row, self._host)

    def _missing(self, found: Iterable[Row]) -> set[str]:
        return self._unsynced - {row.job for row in found} - self._reader.unreadable if self._unsynced else set()

    def _new_row(self, job: Scheduled, now: float) -> Row:
        """A new job begins with its next slot."""
        begin = float(int(now))
        return Row(
            job=job.job.name, slot=begin, next_due=job.next(begin), schedule=job.text, definition=job.definition,
            stage=job.job.stage or UNATTENDED,
        )  # fmt: skip

    def _plans_for_removed(self, cursors: Iterable[Cursor], now: float) -> list[RowPlan]:
        """Plans that end the schedules of jobs no longer in nightlatch.toml, which would be overdue for ever."""
        if not self._removed:
            return []
        found = [row for row in self._reader.read(cursors, self._removed) if row.schedule]
        for job in self._removed - {row.job for row in found}:
            self._forget(job)
        return [RowPlan(row, self._edited(row, None, now), Decision()) for row in found]

    def _forget(self, job: str) -> None:
        self._removed.discard(job)
        self.served.pop(job, None)

    # ── deciding ──

    def _plan(self, row: Row, now: float) -> RowPlan | None:
        """What changes with the job's definition and schedule. None: the definition here is old."""
        job = self.jobs[row.job]
        age = definition.judge(row, job.definition, self.served.get(row.job, ""), shared=self.shared)
        if age == definition.OLD:
            if self._old.get(row.job) != row.definition:
                self._say(f"{row.job}: the definition here is old; nothing is started for it. git pull, or: "
                          f"nightlatch check --apply")  # fmt: skip
            self._old[row.job] = row.definition
            return None
        self._old.pop(row.job, None)
        plan = RowPlan(row, row)
        if age == definition.NEW:
            plan.new = definition.renewed(row, job.definition)
            if row.definition:
                plan.notes.append((kinds.DEFINED, {"definition": job.definition[:12], "was": row.definition[:12]}))
        else:
            self.served[row.job] = definition.mark(row)
        if row.schedule != job.text:
            plan.new, plan.decision = self._edited(plan.new, job, now), Decision()
        return plan

    def _edited(self, row: Row, job: Scheduled | None, now: float) -> Row:
        return row_plan.edited(row, job, now, host=self._host, keep=self._keep)

    def _observation(self, now: float) -> Observation:
        """What is the same for all rows of this look."""
        return Observation(
            now=now,
            patience=slots.UNBEGUN_WATCHED if self._separate_ledgers else slots.UNBEGUN,
            steady=self._steadiness.steady,
            host=self._host,
            stepped=self._steadiness.stepped,
        )

    def _decide(self, plan: RowPlan, view: Observation) -> None:
        plan.new = self._plans.agreed(plan.new)
        row, job, now = plan.new, self.jobs[plan.new.job], view.now
        due = self._due(row, job, now)
        unchanged, holder = self._watch.unchanged(row.job, row.claim), self._leases.holder(row.job)
        if self._separate_ledgers:
            may_expire = self._plans.may_expire(row, unchanged, job.job.expires)
            view = replace(view, may_set_back=row.by == self._host, may_expire=may_expire)
        if unchanged or holder:
            view = replace(view, unchanged=unchanged, holder=holder)
        decision = slots.decide(row, due, job.policy(self._host, due.newest if due else None), view)
        plan.decision = decision
        if decision.set_back:
            plan.new = row_plan.set_back(row, job, now, self._ledger.slots.of(row.job, now))
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
        following = due.following if due and decision.slot == due.newest else 0.0
        plan.new = row_plan.decided(row, job, decision, following, host=self._host, keep=self._keep)
        self._times.set(row.job, decision.look_at if decision.slot is None else plan.new.next_due)

    def _due(self, row: Row, job: Scheduled, now: float) -> Due | None:
        pause_is_over = row.paused is not None and 0 < row.paused.until <= now
        until = min(now, row.paused.until) if pause_is_over and row.paused else now
        return job.due_from(row.next_due, until, row.passed) if row.next_due <= until else None

    def _cancel(self, row: Row) -> None:
        """Request a cancel of the running run. Where its ledger is on another machine, see `_with_cancel`."""
        for run in self._ledger.history.runs(job=row.job, limit=20):
            if run.status in (statuses.RUNNING, statuses.WAITING) and not run.cancel and not run.approved:
                try:
                    self._ledger.decisions.request_cancel(run.id, f"overlap on {self._host}")
                except RunEnded:
                    pass  # it has ended meanwhile

    def _with_cancel(self, row: Row) -> Row:
        """Where each machine has a separate ledger, the holder finds the request in the row when it renews."""
        claim = row.claim
        if not self._separate_ledgers or claim is None or not claim.is_open or claim.cancel:
            return row
        return replace(row, claim=replace(claim, cancel=f"overlap on {self._host}"))

    # ── moving and starting ──

    def _move(self, plan: RowPlan) -> tuple[RowPlan, Move]:
        return plan, plan.move(self._new_id(), self._host)

    def _advance(self, moves: list[tuple[RowPlan, Move]]) -> None:
        if not moves:
            return
        dropped = [(plan.row.job, record) for plan, _ in moves if plan.row and plan.row.records != plan.new.records
                   for record in plan.row.records_missing_in(plan.new)]  # fmt: skip
        self._ledger.slots.put(dropped)
        self._announce([(old, plan.new) for plan, _ in moves if (old := plan.row) and old.edition != plan.new.edition])
        sent = [move for _, move in moves]
        try:
            won = self._store.advance(sent)
        except StoreUnreachable:
            won = self._store.advance(sent)  # maybe only the reply was lost: then the rows have our moves' ids
        for (plan, _), has_won in zip(moves, won, strict=True):
            job = plan.new.job
            if job in self._removed:
                if has_won:
                    self._say(f"{job} is no longer in nightlatch.toml, so it is no longer due")
                    self._forget(job)
                continue
            if not has_won:
                self._times.set(job, self.jobs[job].next(self._store.clock()))  # another scheduler was first
                continue
            self._reader.remember(plan.new)
            self.served[job] = definition.mark(plan.new)  # only now: a definition whose move lost was not served
            if plan.claims and plan.new.claim:
                self._watch.begin(job, plan.new.claim)
                self._start(self.jobs[job], plan.new.claim)
            for kind, facts in plan.notes:
                self._ledger.journal.note(job, kind, **facts)
            self._say_skipped(plan)

    def _announce(self, plans: list[tuple[Row, Row]]) -> None:
        """Write down which definitions this machine is about to bring into force. If it were killed right after the
        move, it would otherwise not know that it has served them, and could never revert them."""
        for old, new in plans:
            known, was = self.served.get(old.job, "").split("\n"), definition.mark(old)
            self.served[old.job] = "\n".join([*(mark for mark in known if mark == was), definition.mark(new)])
        if plans:
            self.remember_served()

    def _say_skipped(self, plan: RowPlan) -> None:
        for record in plan.decision.records if plan.decision else ():
            if record.outcome != COLLAPSED:
                self._say(f"{plan.new.job}: {name_of(record.last)} skipped ({record.reason})")

    def _pause(self, now: float) -> float:
        """Seconds until the next look, at the next due time or the next poll, whichever is first."""
        poll = POLL if not self._separate_ledgers else POLL_CLAIMED if self._others_claims else POLL_IDLE
        return max(min(poll, self._times.next(now) - now), 0.01)
