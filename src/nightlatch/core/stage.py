"""Stages: a job earns its autonomy by evidence, and loses it when something goes wrong.

    manual → supervised → unattended        up: a person promotes it, on evidence; down: a person, or a bad end of a run

A job's stage is in its row of the store, and so is the evidence for it. Each end of a run counts once, identified by
the claim's id or the attempt's grant, no matter which process counts it.
"""

from __future__ import annotations

from . import statuses
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .row import Row

MANUAL, SUPERVISED, UNATTENDED = STAGES = ("manual", "supervised", "unattended")
WRITES, START, NOTHING = HOLDS = ("writes", "start", "none")  # what a supervised run holds back until it is approved
PROMOTE_AFTER = (1, 3)  # clean runs that a promotion needs: out of manual, out of supervised
ENDS = 12  # how many counted ends a row remembers
STRIKES = 2  # runs in a row that stalled or exceeded the job's own cap, after which it is demoted

_FAILED = (*statuses.FAILURES, *statuses.NEEDS_PERSON)


@value(frozen=True, kw_only=True)
class End:
    """How a run of a job ended, as far as its row is concerned."""

    id: str  # the claim's id; for a run by hand, its grant
    status: str
    slot: str = ""  # "": a run by hand
    definition: str = ""
    stage: str = ""  # the job's stage when the run began
    clean: bool = False  # it succeeded at its first attempt, left nothing behind and, if it was held, was approved
    own_cap: bool = False  # it exceeded the job's own budget, not a shared one


def of(row: Row | None, configured: str) -> str:
    """A job's stage: its row's or, if that names none, the one that its settings name for a new job."""
    return (row.stage if row else "") or configured or UNATTENDED


def counted(row: Row, end: End, now: float, configured: str = "") -> Row:
    """The row with this end counted; unchanged if it was counted before."""
    if end.id in row.counted:
        return row
    counters = {**(row.counters or {})}
    counters[end.status] = counters.get(end.status, 0) + 1
    row = replace(row, counters=counters, counted=(end.id, *row.counted)[:ENDS])
    if end.slot and end.status == statuses.SUCCEEDED:
        row = replace(row, failures=0, failed_at=0.0, last_success=end.slot)
    elif end.slot and end.status in _FAILED:
        row = replace(row, failures=row.failures + 1, failed_at=now)
    return _judge(row, end, now, of(row, configured))


def _judge(row: Row, end: End, now: float, stage: str) -> Row:
    is_strike = end.status == statuses.STALLED or end.own_cap
    if is_strike:
        row = replace(row, strikes=row.strikes + 1)
    elif end.status == statuses.SUCCEEDED:
        row = replace(row, strikes=0)
    counts = end.clean and end.definition == row.definition and end.stage == stage
    if counts and (stage == MANUAL or end.slot):  # above manual, only runs of slots are evidence
        row = replace(row, clean=row.clean + 1)
    if stage == MANUAL:
        return row
    if end.status == statuses.IN_DOUBT:
        return changed(row, down(stage), stage, by="nightlatch", why="a run is in doubt", at=now, id=end.id)
    if is_strike and row.strikes >= STRIKES:
        what = "stalled" if end.status == statuses.STALLED else "exceeded its own budget"
        why = f"it {what}, the {_ordinal(row.strikes)} such end in a row"
        return changed(row, down(stage), stage, by="nightlatch", why=why, at=now, id=end.id)
    return row


def changed(row: Row, stage: str, was: str, *, by: str, why: str, at: float, id: str, forced: bool = False) -> Row:
    """The row in another stage, with no evidence yet. It keeps the change until every ledger has recorded it."""
    change = {"id": id, "stage": stage, "was": was, "by": by, "why": why, "at": at}
    if forced:
        change["forced"] = True
    return replace(row, stage=stage, clean=0, strikes=0, change=change)


def held_back(stage: str, hold: str) -> str:
    """What a run of a job in this stage holds back until it is approved."""
    return hold if stage == SUPERVISED else NOTHING


def up(stage: str) -> str:
    return STAGES[min(STAGES.index(stage) + 1, len(STAGES) - 1)]


def down(stage: str) -> str:
    return STAGES[max(STAGES.index(stage) - 1, 0)]


def needed(stage: str, promote_after: tuple[int, ...]) -> int:
    """How many clean runs a promotion out of this stage takes."""
    return (promote_after or PROMOTE_AFTER)[STAGES.index(stage)] if stage != UNATTENDED else 0


def was_demoted(row: Row) -> str:
    """Why the job was demoted automatically; "" if it was not, or a person has changed its stage since."""
    change = row.change or {}
    return str(change["why"]) if change.get("by") == "nightlatch" else ""


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
