"""What one look of the scheduler makes of a row, as functions of the row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core import slots
from ..core.row import NEVER, SKIPPED, Move, Row, SlotRecord
from ..core.slots import Decision, Due
from ..core.stage import UNATTENDED
from ..core.value import replace
from .scheduled import Scheduled, due_before

_NOTHING = Decision()
_MOST_PASSED = 1000  # slots that a row lists as already run after it was set back; done keys show the others


class RowPlan:
    """A row as it was read, and what this look makes of it."""

    def __init__(self, row: Row | None, new: Row, decision: Decision | None = None) -> None:
        """`row`: None if the store has none yet. `decision`: None until the slots are decided about."""
        self.row, self.new, self.decision = row, new, decision
        self.notes: list[tuple[str, dict[str, object]]] = []  # for the journal, if the move wins

    @property
    def claims(self) -> bool:
        return self.decision is not None and self.decision.claim is not None

    @property
    def waits(self) -> bool:
        """Does the row wait for room, or for something that has no known time?"""
        return self.decision == _NOTHING

    def move(self, move: str, host: str) -> Move:
        """The move of the row to what it becomes; a new claim has the move's id."""
        claim = self.decision.claim if self.decision else None
        claim = replace(claim, id=move, by=host) if claim else self.new.claim
        self.new = replace(self.new, id=move, by=host, claim=claim)
        return (self.row or replace(self.new, id="")).move_to(self.new, move)


def takes_room(row: Row, host: str) -> bool:
    """Is a run of this row at work on this host? The claim shows it, also after a restart."""
    claim = row.claim
    if claim is None or claim.ended or claim.by != host:
        return False
    return not claim.again_at and claim.held is None


def first(job: Scheduled, now: float) -> Row:
    """The row of a new job, which begins with its next slot."""
    begin = float(int(now))
    return Row(
        job=job.job.name, slot=begin, next_due=job.next(begin), schedule=job.text, definition=job.definition,
        stage=job.job.stage or UNATTENDED,
    )  # fmt: skip


def due(row: Row, job: Scheduled, now: float) -> Due | None:
    """The row's slots that are due now, or were when its pause ended."""
    pause_is_over = row.paused is not None and 0 < row.paused.until <= now
    until = min(now, row.paused.until) if pause_is_over and row.paused else now
    return job.due_from(row.next_due, until, row.passed) if row.next_due <= until else None


def decided(row: Row, job: Scheduled, decision: Decision, following: float, *, host: str, keep: int) -> Row:
    """The row after a decision about its slots. `following`: the next slot after them; 0.0 if unknown."""
    changes: dict[str, Any] = {}
    if decision.unpause:
        changes["paused"] = None
    if decision.records:
        changes["records"] = row.with_records(*(replace(record, host=host) for record in decision.records), keep=keep)
    if decision.slot is not None:
        slot = changes["slot"] = decision.slot
        changes["next_due"] = following or job.next(slot)
        if row.passed:
            changes["passed"] = tuple(passed for passed in row.passed if passed > slot)
    return replace(row, **changes) if changes or decision.claim else row


def edited(row: Row, job: Scheduled | None, now: float, *, host: str, keep: int) -> Row:
    """The row with another schedule, or none, from its next slot on; due slots of the old schedule are skipped."""
    begin = max(row.slot, float(int(now)))
    skipped = skipped_slots(row, now, slots.EDITED, host)
    records = row.with_records(skipped, keep=keep) if skipped else row.records
    next_due, text = (job.next(begin), job.text) if job else (NEVER, "")
    return replace(row, slot=begin, next_due=next_due, schedule=text, records=records)


def skipped_slots(row: Row, now: float, reason: str, host: str) -> SlotRecord | None:
    """A record that skips all slots which are due by `now`; None if none is."""
    due = due_before(row.schedule, row.slot, now, row.passed)
    if due is None:
        return None
    first, last, count = due
    return SlotRecord(
        first=first, last=last, count=count, outcome=SKIPPED, reason=reason, host=host, at=now, era=row.era
    )


def set_back(row: Row, job: Scheduled, now: float, recorded: Iterable[SlotRecord]) -> Row:
    """The row without the moves of a clock that was ahead. Records of runs stay. `recorded`: the ledger's records."""
    ran = still_decided(row, recorded, now)
    begin = float(int(now))
    kept = tuple(_cut(record, job, begin) for record in row.records if record.names_a_run or record.first <= begin)
    return replace(
        row, slot=begin, next_due=job.next(begin), era=row.era + 1, struck=row.set_back_to(begin),
        passed=tuple(sorted(ran)[:_MOST_PASSED]), records=kept,
    )  # fmt: skip


def still_decided(row: Row, recorded: Iterable[SlotRecord], time: float) -> set[float]:
    """The slots after a time that stay decided when the row is set back to it: those that have a run, and
    the slot of an open claim. A claim that ended without a run has only a record, which is struck out."""
    ran = {record.first for record in (*recorded, *row.records) if record.names_a_run and record.first > time}
    return ran | {row.claim.slot} if row.claim and row.claim.is_open and row.claim.slot > time else ran


def _cut(record: SlotRecord, job: Scheduled, time: float) -> SlotRecord:
    if record.names_a_run or record.last <= time:
        return record
    last, count = job.cut(record.first, time)
    return replace(record, last=last, count=count)
