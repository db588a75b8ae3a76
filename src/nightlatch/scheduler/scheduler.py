"""One look at the jobs' rows: decide what is due, move all rows at once, start what was claimed. A look shortly before
a due time prepares the claims of that time (ahead.py).

Any number of schedulers work on one store; none leads. Clock, store, ledger and processes are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from ..core import definition, slots
from ..core.protocols import Store
from ..core.row import COLLAPSED, Claim, Cursor, Move, Row
from ..core.schedule import name_of
from ..core.slots import Decision, Observation
from ..core.value import replace
from ..errors import StoreUnreachable
from ..ledger import kinds
from ..ledger.ledger import Ledger
from ..runtime.supervisor.run.rows import KEPT
from . import ahead, overlap, row_plan
from .ahead import Prepared
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
        self._prepared: Prepared | None = None  # for the next look only, and if nothing else is called before it
        self._others_claims = False

    def serve(self, jobs: Mapping[str, Scheduled], removed: Iterable[str] = ()) -> None:
        """Schedule these jobs from the next look on. `removed`: jobs that were in nightlatch.toml before."""
        self.jobs = jobs
        self._removed = (self._removed | set(removed)) - jobs.keys()
        self._unsynced = set(jobs)
        self._times = LookTimes()
        self._next_look = 0.0
        self._prepared = None

    def look(self) -> float:
        """Do what is due; returns the seconds until the next look, which may be 0.0: there is more to do. If it raises
        `StoreUnreachable`, nothing was started, and the slots wait."""
        now, began = self._begin(), self._clocks.now()
        prepared, self._prepared = self._prepared, None
        if prepared and prepared.holds(now, began):
            return self._start_prepared(prepared, now)
        if began - self._looked_at_all > _ALL_ROWS_EVERY:
            self._unsynced = set(self.jobs)
        due = self._near_due(now)
        cursors = self._store.cursors() if self._unsynced or self._removed else self._store.cursors(due=due)
        found = self._rows(cursors, due)
        self._others_claims = any(row.claim and row.claim.is_open and row.claim.by != self._host for row in found)
        added = [RowPlan(None, row_plan.first(self.jobs[job], now), Decision()) for job in sorted(self._missing(found))]
        self._waiting = []
        room = self._settle(found, [*added, *self._plans_for_removed(cursors, now)], now, self._room(found))
        self._watch.keep()
        if self._unsynced:
            self._unsynced = set()
            self._looked_at_all = self._clocks.now()
        if due > now:
            self._prepared = self._prepare(found, due, began + due - now, room)
            pause = max(began + due - now - self._clocks.now(), 0.0)
        else:
            pause = self._pause(now)
        self._next_look = self._clocks.now() + pause
        return pause

    def start_waiting(self, ended: Collection[str]) -> float:
        """Runs of these jobs have ended: start what waits for them or for room, as `look` would, without reading all
        that is due. Returns the seconds until the next look."""
        self._prepared = None  # it may not fit the room that is left
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

    # ── ahead of the due time ──

    def _near_due(self, now: float) -> float:
        """The next due time if its claims are to be prepared now, else `now`."""
        due = self._times.next(now)
        return due if ahead.is_near(due, now) and not self._separate_ledgers else now

    def _prepare(self, found: Iterable[Row], due: float, clock: float, room: int) -> Prepared | None:
        """Decide about the rows that need a look at the due time as if it were that time, and pack the plain claims.
        `clock`: the due time by this machine's clock that cannot be set."""
        wanted = sorted((row for row in found if self._times.of(row.job) == due), key=lambda row: row.next_due)
        view = self._observation(due)
        plans = (plan for row in wanted if (plan := self._plain_claim(row, view)))
        moves = [self._move(plan) for plan in islice(plans, max(room, 0))]
        return Prepared(due, clock, moves, complete=len(moves) == len(wanted)) if moves else None

    def _plain_claim(self, row: Row, view: Observation) -> RowPlan | None:
        """The plan for the row if it claims a slot, and edits nothing. None: deciding could do what cannot be undone,
        such as a cancel, or came to something else."""
        if (row.claim and row.claim.is_open) or self._leases.holder(row.job):
            return None
        plan = self._plan(row, view.now)
        if plan is None or plan.new is not row:
            return None
        self._decide(plan, view)
        return plan if plan.claims else None

    def _start_prepared(self, prepared: Prepared, now: float) -> float:
        """Claim and start what was prepared. Returns the seconds until the next look: 0.0 if that was not all that is
        due, or if another process has moved a row first."""
        all_won = self._advance(prepared.moves)
        self._watch.keep()
        pause = self._pause(now) if all_won and prepared.complete else 0.0
        self._next_look = self._clocks.now() + pause
        return pause

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
        due = row_plan.due(row, job, now)
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
            overlap.request_cancel(self._ledger, row, self._host)
            row = overlap.with_cancel(row, self._host) if self._separate_ledgers else row
        following = due.following if due and decision.slot == due.newest else 0.0
        plan.new = row_plan.decided(row, job, decision, following, host=self._host, keep=self._keep)
        if decision.slot is None:
            self._times.set(row.job, decision.look_at)

    # ── moving and starting ──

    def _move(self, plan: RowPlan) -> tuple[RowPlan, Move]:
        return plan, plan.move(self._new_id(), self._host)

    def _advance(self, moves: list[tuple[RowPlan, Move]]) -> bool:
        """Returns whether all moves have won."""
        if not moves:
            return True
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
            self._times.set(job, plan.new.next_due)
            self._reader.remember(plan.new)
            self.served[job] = definition.mark(plan.new)  # only now: a definition whose move lost was not served
            if plan.claims and plan.new.claim:
                self._watch.begin(job, plan.new.claim)
                self._start(self.jobs[job], plan.new.claim)
            for kind, facts in plan.notes:
                self._ledger.journal.note(job, kind, **facts)
            self._say_skipped(plan)
        return all(won)

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
        """Seconds until the next look: shortly before the next due time, or at the next poll if that is first. Where
        slots wait for room, nothing can be prepared; where ledgers are separate, a look is a request to a remote."""
        poll = POLL if not self._separate_ledgers else POLL_CLAIMED if self._others_claims else POLL_IDLE
        due = self._times.next(now)
        at_due = self._separate_ledgers or self._waiting or ahead.is_near(due, now)
        return max(min(poll, due - now if at_due else due - now - ahead.LEAD), 0.01)
