"""What a due slot becomes: one function of the row, the clock, the policy and the lease.

    row (decided up to where, which claim) + due slots + lease + policy + clock  →  a decision, and when to look again

A slot is claimed only when it can start. One that has to wait (queue, cancel, no room, a host's turn) leaves the row as
it is, and catch-up later makes one run of all that came due meanwhile. So there is no queue, and a machine that dies
owns nothing.
"""

from __future__ import annotations

from .job import CANCEL, NONE, ONE, SKIP
from .row import APPROVER, COLLAPSED, SKIPPED, Claim, Row, SlotRecord
from .schedule import COUNTED
from .stage import MANUAL, UNATTENDED
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TURN = 30.0  # seconds between the turns of two hosts
UNBEGUN = 30.0  # seconds after which a claim whose run has not begun is taken over, where the store has a clock
UNBEGUN_WATCHED = 120.0  # the same where the store has no clock
OVERDUE_TRY = 30.0  # seconds for the waiting supervisor to make its next try, before another machine may
ON_TIME = 60.0  # seconds; a slot that is found later than that counts as missed
AFTER_WAKE = 20.0  # seconds that claims wait for the network after the machine woke up
STEADY = 3600.0  # seconds for which the clocks must have agreed before a row is set back
AHEAD = 3600.0  # seconds: a row that is ahead of the clock by more than this and one period has to be set back
FAILURES = 3  # failures in a row, after which slots are skipped
DAY = 86_400.0
FARTHEST = 7 * DAY  # a time further ahead than this was set before the clock was set back

# Why a slot was skipped:
OVERLAP, MISSED, LATE, PAUSED, FAILING, STAGE, WAITS, NOT_STARTED, EDITED, BY_HAND = (
    "overlap", "missed", "late", "paused", "failing", "stage", "waits", "not started", "edited", "by hand",
)  # fmt: skip


@value(frozen=True, kw_only=True)
class Due:
    """A job's slots that are due and not decided, from `first` to `newest`: up to now, or to the end of a pause."""

    first: float
    newest: float
    previous: float = 0.0  # the slot before the newest; 0: there is only one
    count: int = 1  # 1,001: more than 1,000
    following: float  # the first slot after the newest


@value(frozen=True, kw_only=True)
class Policy:
    """How a job wants its slots handled."""

    overlap: str = SKIP
    catch_up: str = ONE
    late: float | None = None
    delay: float | None = 0.0  # until this host's turn, plus the newest slot's jitter; None: never on this host
    stage: str = UNATTENDED  # if the row names none
    expires: float = 3 * DAY  # how long a plan waits for an approval


@value(frozen=True, kw_only=True)
class Observation:
    """What the scheduler that looks at a row knows besides the row."""

    now: float  # by the store's clock, or this machine's on a store without one
    holder: str = ""  # the grant that has the job's lease; "": it is free, or its holder is proven gone
    unchanged: float = 0.0  # seconds on the suspend-proof clock for which this scheduler has seen the claim unchanged
    patience: float = UNBEGUN  # how long `unchanged` must be before the claim counts as abandoned
    room: bool = True  # can this machine start a run now?
    steady: float = 0.0  # seconds for which the wall clock has agreed with the suspend-proof one
    may_set_back: bool = True  # on a store without a clock: only the machine that moved the row last
    host: str = ""  # of this scheduler
    stepped: bool = False  # a clock was set within the last hour
    may_expire: bool = True  # on a store without a clock: only the plan's host, or one that has watched it long enough


@value(frozen=True, kw_only=True)
class Decision:
    """What to do about a row. At most one of claim, cancel and set_back is set."""

    records: tuple[SlotRecord, ...] = ()
    slot: float | None = None  # the row's new `slot`; None: unchanged
    claim: Claim | None = None  # to be started; the machine that claims it adds the id
    cancel: bool = False  # end the run that is working; the slot waits for that
    set_back: bool = False
    unpause: bool = False
    expire: bool = False  # the plan waited too long for an approval
    hold_until: float = 0.0  # shorten the plan's wait to this: its end was set by a clock that was ahead
    look_at: float = 0.0  # when to look again; 0: at the scheduler's next look


def decide(row: Row, due: Due | None, policy: Policy, view: Observation) -> Decision:
    """What to do about the row now: move it, or look again at the time named."""
    if row.slot > view.now + AHEAD + _period(row, due):
        return _decide_ahead(view)
    claim = row.claim
    if claim and claim.is_open:
        return _decide_claimed(row, claim, due, policy, view)
    if row.paused and not _is_paused(row, view.now):
        return _unpause(row, due, view)
    if due is None:
        return Decision(look_at=row.next_due)
    if due.newest in row.passed:  # it ran before the row was set back
        return Decision(slot=due.newest, records=_older(row, due, view, COLLAPSED, into=due.newest))
    if reason := _why_none_runs(row, policy):
        return _skip(row, due, view, reason)
    if view.now < failing_until(row, due, view.now):
        return _skip(row, due, view, FAILING)
    if policy.delay is None:
        return Decision(look_at=view.now + TURN)  # another machine has to run it
    if view.now < due.newest + policy.delay:
        return Decision(look_at=due.newest + policy.delay)
    lateness = view.now - due.newest - policy.delay
    if policy.late is not None and lateness > policy.late:
        return _skip(row, due, view, LATE)
    if policy.catch_up == NONE and lateness > ON_TIME:
        return _skip(row, due, view, MISSED)
    if view.holder:
        return _overlapping(row, due, policy, view)
    if not view.room:
        return Decision()
    return _claim(row, due, policy, view)


# ── a claim is open ──


def _decide_claimed(row: Row, claim: Claim, due: Due | None, policy: Policy, view: Observation) -> Decision:
    if claim.held is not None:
        return _decide_held(row, claim, claim.held, due, policy, view)
    if _waits(claim, view.now) or not _abandoned(claim, view):
        if due and (reason := _why_none_runs(row, policy)):
            return _skip(row, due, view, reason)  # first, or overlap = "cancel" would end a run for a skipped slot
        if due:
            return _overlapping(row, due, policy, view)
        return Decision(look_at=claim.again_at + OVERDUE_TRY if claim.again_at else row.next_due)
    # The claim's supervisor is gone, or never started.
    if policy.delay is None or not view.room:
        return Decision()
    lost_start = not claim.grant and not claim.attempted
    if lost_start and due and policy.catch_up == ONE and _may_run(row, due, policy, view):
        last = SlotRecord(
            first=claim.slot, last=claim.slot, outcome=COLLAPSED, slot=due.newest, at=view.now, era=row.era
        )
        taken = _claim(row, due, policy, view)
        if taken.claim is None:
            raise ValueError(f"a slot that may run was not claimed: {due.newest}")
        new = replace(taken.claim, missed=min(taken.claim.missed + claim.missed + 1, COUNTED + 1))
        return replace(taken, records=(last, *taken.records), claim=new)
    again = replace(claim, id="", at=view.now, starts=claim.starts + 1, grant="", token=0, again_at=0.0)
    return Decision(claim=again)


def _decide_held(
    row: Row, claim: Claim, held: dict[str, Any], due: Due | None, policy: Policy, view: Observation
) -> Decision:
    """For a claim whose plan waits for an approval, or is approved and being published. The command is not run again:
    nothing is paid for twice, and the plan that a person looked at is what lands."""
    if APPROVER in held:
        here = not held["host"] or held["host"] == view.host  # the machine that has its workspace
        if here and view.room and not _waits(claim, view.now) and _abandoned(claim, view):
            return Decision(claim=replace(claim, id="", at=view.now, grant="", token=0, again_at=0.0))
    elif held["until"] > view.now + policy.expires + ON_TIME:
        return Decision(hold_until=view.now + policy.expires)
    elif held["until"] <= view.now and view.may_expire and not view.stepped:
        return Decision(expire=True)
    return _skip(row, due, view, WAITS) if due else Decision(look_at=min(max(held["until"], view.now), row.next_due))


def _waits(claim: Claim, now: float) -> bool:
    """Does the claim wait for its next try? Its supervisor makes it; once that try is overdue, another machine may."""
    return bool(claim.again_at) and now < claim.again_at + OVERDUE_TRY and claim.again_at < now + FARTHEST


def _abandoned(claim: Claim, view: Observation) -> bool:
    if view.holder:
        return False  # the claim's supervisor or another holder has the lease: nothing can be started now
    return bool(claim.grant and not claim.again_at) or view.unchanged >= view.patience or bool(claim.again_at)


def _may_run(row: Row, due: Due, policy: Policy, view: Observation) -> bool:
    """Can the newest due slot itself be started?"""
    if policy.delay is None:
        return False
    lateness = view.now - due.newest - policy.delay
    return (
        lateness >= 0
        and (policy.late is None or lateness <= policy.late)
        and not _why_none_runs(row, policy)
        and due.newest not in row.passed
    )


# ── a slot is due ──


def _why_none_runs(row: Row, policy: Policy) -> str:
    """Why none of the job's slots is run now; "" if they may be."""
    if row.paused:
        return PAUSED
    return STAGE if (row.stage or policy.stage) == MANUAL else ""


def _overlapping(row: Row, due: Due, policy: Policy, view: Observation) -> Decision:
    if policy.overlap == SKIP:
        return _skip(row, due, view, OVERLAP)
    return Decision(cancel=policy.overlap == CANCEL)


def _claim(row: Row, due: Due, policy: Policy, view: Observation) -> Decision:
    catch_up = policy.catch_up == ONE
    older = _older(row, due, view, COLLAPSED if catch_up else SKIPPED, into=due.newest if catch_up else 0.0)
    missed = sum(record.count for record in older) if catch_up else 0
    claim = Claim(id="", slot=due.newest, at=view.now, missed=missed, since=row.last_success, era=row.era)
    return Decision(records=older, slot=due.newest, claim=claim)


def _skip(row: Row, due: Due, view: Observation, reason: str) -> Decision:
    count = due.count - _passed(row, due.first, due.newest)
    skipped = SlotRecord(
        first=due.first, last=due.newest, count=count, outcome=SKIPPED, reason=reason, at=view.now, era=row.era
    )
    return Decision(records=(skipped,) if count > 0 else (), slot=due.newest, look_at=due.following)


def _older(row: Row, due: Due, view: Observation, outcome: str, *, into: float) -> tuple[SlotRecord, ...]:
    """The record of the due slots before the newest; none if there are no such slots."""
    if not due.previous:
        return ()
    count = (due.count - 1 if due.count <= COUNTED else due.count) - _passed(row, due.first, due.previous)
    if count <= 0:
        return ()
    reason = MISSED if outcome == SKIPPED else ""
    record = SlotRecord(
        first=due.first, last=due.previous, count=count, outcome=outcome, reason=reason, slot=into, at=view.now,
        era=row.era,
    )  # fmt: skip
    return (record,)


def _passed(row: Row, first: float, last: float) -> int:
    """How many slots of this range ran before the row was set back."""
    return sum(first <= slot <= last for slot in row.passed)


# ── paused, failing, clocks ──


def _is_paused(row: Row, now: float) -> bool:
    return row.paused is not None and (not row.paused.until or now < row.paused.until)


def _unpause(row: Row, due: Due | None, view: Observation) -> Decision:
    """After a pause: the slots that came due during it are skipped."""
    return replace(_skip(row, due, view, PAUSED) if due else Decision(), unpause=True)


def failing_until(row: Row, due: Due, now: float) -> float:
    """Until when slots are skipped after failures in a row: 2, 4, 8 … periods after the last one, at most a day."""
    if row.failures < FAILURES or row.failed_at > now:  # ahead of now: the clock was set back since
        return 0.0
    periods = 2.0 ** min(row.failures - FAILURES + 1, 20)
    return row.failed_at + min(periods * _period(row, due), DAY)


def _period(row: Row, due: Due | None) -> float:
    """Roughly the time between two slots."""
    if due is None:
        return max(row.next_due - row.slot, 0.0)
    return due.following - due.newest


def _decide_ahead(view: Observation) -> Decision:
    if view.steady >= STEADY and view.may_set_back:
        return Decision(set_back=True)
    return Decision(look_at=view.now + max(STEADY - view.steady, 60.0))
