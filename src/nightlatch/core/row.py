"""A job's row in the store, which all machines agree on: how far its slots are decided, its claim, and what its runs
have earned it.

A row only moves by compare-and-swap on the id of its last move (`Store.advance`). The store compares `Cursor` and
keeps the rest as a text that it does not read.
"""

from __future__ import annotations

import json

from ..errors import StoreUnreachable
from .schedule import COUNTED
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RAN, COLLAPSED, SKIPPED = "ran", "collapsed", "skipped"  # every slot ends as one of them
BEFORE = 64  # definitions that a row remembers besides the one in force
STRUCK = 12  # set-backs that a row remembers
NEVER = 32_503_680_000.0  # the due time of a job that is only run by hand


@value(frozen=True, kw_only=True)
class Cursor:
    """What a store compares of a row. Times are seconds since the epoch."""

    job: str
    id: str  # of its last move
    slot: float  # every due time up to here is decided; never past the store's clock
    wake: float  # when it is worth a look; 0: always
    body: str  # the rest


@value(frozen=True, kw_only=True)
class Move(Cursor):
    """A row as it is to become if its last move is still `seen`. The client chooses the id: a move that is sent again,
    because its reply was lost, finds its own id in the row and has won."""

    seen: str  # the id of the move before; "": there is no row yet


@value(frozen=True, kw_only=True)
class SlotRecord:
    """What became of slots: one, or a range whose slots all ended alike."""

    first: float
    last: float
    count: int = 1  # 1,001: over 1,000
    outcome: str
    reason: str = ""
    slot: float = 0.0  # the slot that they were collapsed into
    run: str = ""
    host: str = ""
    at: float = 0.0
    era: int = 0  # how often the row had been set back

    @property
    def names_a_run(self) -> bool:
        """Such a record is never struck out, whatever the clock does: another machine's ledger may have the run."""
        return self.outcome == RAN or bool(self.run)

    def joined_with(self, other: SlotRecord) -> SlotRecord | None:
        """Both as one record, if they say the same; None if they do not. The record of a run is never joined."""
        alike = (self.outcome, self.reason, self.slot, self.era) == (other.outcome, other.reason, other.slot, other.era)
        if not alike or self.names_a_run:
            return None
        return replace(other, first=self.first, count=min(self.count + other.count, COUNTED + 1))


@value(frozen=True, kw_only=True)
class Claim:
    """One machine announces that it starts a slot now. That is not ownership: the lease is."""

    id: str
    slot: float
    by: str = ""  # host
    at: float = 0.0
    starts: int = 1  # of this slot since its last attempt; a start that led to no attempt is lost
    missed: int = 0  # slots that were collapsed into it
    since: str = ""  # the last slot that succeeded before it
    grant: str = ""  # of the attempt that began it
    token: int = 0
    attempted: bool = False  # it has begun before
    run: str = ""
    again_at: float = 0.0  # it waits for its next try
    # It waits for an approval: run, host ("": any), until, head (of the plan), what, clean; `word`: the approver
    held: dict[str, Any] | None = None
    cancel: str = ""  # a request to end it, for a holder that uses another ledger
    era: int = 0  # of the row when it was claimed
    ended: str = ""  # how

    @property
    def is_open(self) -> bool:
        return not self.ended


@value(frozen=True, kw_only=True)
class Pause:
    by: str
    at: float
    until: float = 0.0  # 0: until somebody ends it
    reason: str = ""


@value(frozen=True, kw_only=True)
class Row:
    """A job's row."""

    job: str
    id: str = ""
    slot: float
    next_due: float
    schedule: str = ""  # as it is written, with its zone
    definition: str = ""
    edition: int = 0  # how often another one has come into force
    before: tuple[str, ...] = ()  # definitions that were in force, the newest first
    claim: Claim | None = None
    records: tuple[SlotRecord, ...] = ()  # the newest last; the ledger has all but those of the last move
    paused: Pause | None = None
    stage: str = ""  # "": as the job's own setting says
    counters: dict[str, int] | None = None  # ends, by their status
    clean: int = 0  # runs since it came to its stage, under the definition in force
    strikes: int = 0  # stalls, or own caps passed, in a row
    change: dict[str, Any] | None = None  # the last one of its stage: id, stage, was, by, why, at
    failures: int = 0  # in a row
    failed_at: float = 0.0
    last_success: str = ""  # slot
    era: int = 0
    struck: tuple[tuple[float, int], ...] = ()  # (time, era): records of earlier eras after that time do not count
    passed: tuple[float, ...] = ()  # slots after `slot` that are decided: they ran before the row was set back
    counted: tuple[str, ...] = ()  # claims and grants whose end has been counted
    by: str = ""  # the host that moved it last
    used: dict[str, Any] | None = None  # of the day and month, by each ledger, where machines do not share one

    @property
    def wake(self) -> float:
        """When a scheduler should look at it."""
        if self.claim and self.claim.is_open:
            return min(self.claim.again_at, self.next_due) if self.claim.again_at else 0.0
        return self.next_due

    def move(self, new_id: str, **changes: Any) -> Move:
        """The move that makes these changes."""
        return self.move_to(replace(self, **changes), new_id)

    def move_to(self, new: Row, new_id: str) -> Move:
        """The move that replaces this row by `new`."""
        return Move(job=new.job, seen=self.id, id=new_id, slot=new.slot, wake=new.wake, body=new.pack())

    def set_back_to(self, time: float) -> tuple[tuple[float, int], ...]:
        """What is struck out when the row is set back once more. A machine that was asleep for several set-backs has to
        apply each: what was recorded before the first does not count after the first."""
        return (*(one for one in self.struck if one[0] < time), (time, self.era + 1))[-STRUCK:]

    def with_records(self, *new: SlotRecord, keep: int = 0) -> tuple[SlotRecord, ...]:
        """The records that the row holds after a move that adds these. The first new one may extend the last; older
        ones are in the ledger by then, and only `keep` of them stay, for machines that do not share it."""
        if not new:
            return self.records
        last = self.records[-1] if self.records else None
        # A slot between them that is claimed, or ran before a set-back: then the row is past the last.
        grown = last.joined_with(new[0]) if last and last.last == self.slot else None
        if grown:
            return (*self.records[:-1], grown, *new[1:])[-max(keep, len(new)) :]
        return (*self.records, *new)[-max(keep, len(new)) :]

    def records_missing_in(self, other: Row) -> list[SlotRecord]:
        """The records that the other row does not have, or not like this."""
        there = {record.first: record for record in other.records}
        return [record for record in self.records if there.get(record.first) != record]

    def pack(self) -> str:
        facts = _packed(self, _BLANK, _APART)
        if self.claim:
            facts["claim"] = _packed(self.claim, _CLAIM)
        if self.records:
            facts["records"] = [_packed(record, _RECORD) for record in self.records]
        if self.paused:
            facts["paused"] = _packed(self.paused, _PAUSE)
        return _encode(facts)


def read(cursor: Cursor) -> Row:
    """The row that a store shows."""
    facts = json.loads(cursor.body)
    claim, records, paused = facts.pop("claim", None), facts.pop("records", ()), facts.pop("paused", None)
    for field in ("before", "passed", "counted"):
        if field in facts:
            facts[field] = tuple(facts[field])
    if "struck" in facts:
        facts["struck"] = tuple((time, era) for time, era in facts["struck"])
    try:
        return Row(
            job=cursor.job, id=cursor.id, slot=cursor.slot, claim=Claim(**claim) if claim else None,
            records=tuple(SlotRecord(**one) for one in records), paused=Pause(**paused) if paused else None, **facts,
        )  # fmt: skip
    except TypeError as error:  # what a newer program added, a move of ours would drop
        raise StoreUnreachable(
            f"the row of {cursor.job} was written by a newer Nightlatch ({error}): upgrade this one"
        ) from error


_encode = json.JSONEncoder(separators=(",", ":")).encode
_BLANK = Row(job="", slot=-1.0, next_due=-1.0)
_APART = frozenset({"job", "id", "slot", "claim", "records", "paused"})  # columns, and what is packed by itself
_CLAIM = Claim(id="", slot=-1.0)
_RECORD = SlotRecord(first=-1.0, last=-1.0, outcome="")
_PAUSE = Pause(by="", at=-1.0)


def _packed(one: object, blank: object, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    plain = blank.__dict__
    return {name: value for name, value in one.__dict__.items() if name not in without and value != plain[name]}
