"""A job's row in the store, which all machines agree on: up to where its slots are decided, its claim, and the evidence
for its stage.

A row changes only by compare-and-swap on the id of its last move (`Store.advance`). The store reads the fields of
`Cursor`; all others are in `body`, a text that it does not read.
"""

from __future__ import annotations

from ..errors import StoreUnreachable
from . import json_text
from .schedule import COUNTED
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

RAN, COLLAPSED, SKIPPED = "ran", "collapsed", "skipped"  # every slot ends as one of these
MOST_BEFORE = 64  # how many earlier definitions a row remembers
MOST_STRUCK = 12  # how many set-backs a row remembers
APPROVER = "word"  # a key in `Claim.held`, set by an approval: who gave it, or "approved" if only the ledger knows
NEVER = 32_503_680_000.0  # the due time of a job that is only run by hand


@value(frozen=True, kw_only=True)
class Cursor:
    """A row as the store keeps it. Times are seconds since the epoch."""

    job: str
    id: str  # of its last move
    slot: float  # every due time up to here is decided; never past the store's clock
    wake: float  # when a scheduler should look at it; 0: always
    body: str  # all other fields (`Row.pack`)


@value(frozen=True, kw_only=True)
class Move(Cursor):
    """What a row becomes if its last move is still `seen`. The client chooses the id: a move that is sent again because
    its reply was lost finds its own id in the row and has won."""

    seen: str  # the id of the last move that the client saw; "": there was no row yet


@value(frozen=True, kw_only=True)
class SlotRecord:
    """What became of one slot, or of a range whose slots all ended alike."""

    first: float
    last: float
    count: int = 1  # 1,001: more than 1,000
    outcome: str
    reason: str = ""
    slot: float = 0.0  # the slot into which these were collapsed
    run: str = ""
    host: str = ""
    at: float = 0.0
    era: int = 0  # how often the row had been set back

    @property
    def names_a_run(self) -> bool:
        """Such a record is never struck out when the row is set back: another machine's ledger may have the run."""
        return self.outcome == RAN or bool(self.run)

    def joined_with(self, other: SlotRecord) -> SlotRecord | None:
        """Both as one record if they differ in their slots only, else None. The record of a run is never joined."""
        alike = (self.outcome, self.reason, self.slot, self.era) == (other.outcome, other.reason, other.slot, other.era)
        if not alike or self.names_a_run:
            return None
        return replace(other, first=self.first, count=min(self.count + other.count, COUNTED + 1))


@value(frozen=True, kw_only=True)
class Claim:
    """A machine's announcement that it starts a slot now. Only the lease gives ownership."""

    id: str
    slot: float
    by: str = ""  # host
    at: float = 0.0
    starts: int = 1  # starts of this slot since its last attempt; those before this one led to no attempt
    missed: int = 0  # how many slots were collapsed into this one
    since: str = ""  # the last slot that succeeded before this one
    grant: str = ""  # of the attempt that works on it
    token: int = 0
    attempted: bool = False  # an attempt has begun
    run: str = ""
    again_at: float = 0.0  # when its next try is due; 0: it waits for none
    # While it waits for an approval: run, host ("": any), until, head (of the plan), what, clean, APPROVER
    held: dict[str, Any] | None = None
    cancel: str = ""  # a request to end it, for a holder that uses another ledger
    era: int = 0  # the row's era when it was claimed
    ended: str = ""  # how it ended; "": it is open

    @property
    def is_open(self) -> bool:
        return not self.ended


@value(frozen=True, kw_only=True)
class Pause:
    by: str
    at: float
    until: float = 0.0  # 0: until a person ends it
    reason: str = ""


@value(frozen=True, kw_only=True)
class Row:
    job: str
    id: str = ""
    slot: float
    next_due: float
    schedule: str = ""  # as the file has it, with its zone
    definition: str = ""  # the one in force
    edition: int = 0  # how many definitions have come into force
    before: tuple[str, ...] = ()  # definitions that were in force, the newest first
    claim: Claim | None = None
    records: tuple[SlotRecord, ...] = ()  # the newest last; those before the last move are in the ledger too
    paused: Pause | None = None
    stage: str = ""  # "": the one that the job's settings name
    counters: dict[str, int] | None = None  # status → how many runs ended so
    clean: int = 0  # clean runs in this stage, under the definition in force
    strikes: int = 0  # runs in a row that stalled or exceeded the job's own cap
    change: dict[str, Any] | None = None  # the last change of its stage: id, stage, was, by, why, at
    failures: int = 0  # failed runs in a row
    failed_at: float = 0.0  # when the last of them failed
    last_success: str = ""  # the last slot that succeeded
    era: int = 0  # how often the row was set back
    struck: tuple[tuple[float, int], ...] = ()  # (time, era): records of earlier eras after that time do not count
    passed: tuple[float, ...] = ()  # slots after `slot` that are decided: they ran before the row was set back
    counted: tuple[str, ...] = ()  # claims and grants whose end has been counted
    by: str = ""  # the host that moved it last
    used: dict[str, Any] | None = None  # usage of the day and month by ledger, where machines do not share one

    @property
    def wake(self) -> float:
        """When a scheduler should look at it."""
        if self.claim and self.claim.is_open:
            return min(self.claim.again_at, self.next_due) if self.claim.again_at else 0.0
        return self.next_due

    @property
    def next_slot(self) -> float | None:
        """When its next slot is due; None if it has none, as it is paused or started by hand."""
        return self.next_due if self.next_due < NEVER and not self.paused else None

    def move(self, new_id: str, **changes: Any) -> Move:
        """The move that makes these changes."""
        return self.move_to(replace(self, **changes), new_id)

    def move_to(self, new: Row, new_id: str) -> Move:
        """The move that replaces this row by `new`."""
        return Move(job=new.job, seen=self.id, id=new_id, slot=new.slot, wake=new.wake, body=new.pack())

    def set_back_to(self, time: float) -> tuple[tuple[float, int], ...]:
        """`struck` after the row is set back once more, to `time`. Each set-back is kept, since a machine that slept
        through several has to apply all of them to its records."""
        return (*(one for one in self.struck if one[0] < time), (time, self.era + 1))[-MOST_STRUCK:]

    def with_records(self, *new: SlotRecord, keep: int = 0) -> tuple[SlotRecord, ...]:
        """The row's records after a move that adds `new`. The first new record may extend the last one. Older records
        are in the ledger by then, and up to `keep` stay here, for machines that do not share that ledger."""
        if not new:
            return self.records
        last = self.records[-1] if self.records else None
        # Not if the row is already past the last record: a slot between them is claimed, or ran before a set-back.
        grown = last.joined_with(new[0]) if last and last.last == self.slot else None
        if grown:
            return (*self.records[:-1], grown, *new[1:])[-max(keep, len(new)) :]
        return (*self.records, *new)[-max(keep, len(new)) :]

    def records_missing_in(self, other: Row) -> list[SlotRecord]:
        """The records that the other row does not have, or has with other content."""
        there = {record.first: record for record in other.records}
        return [record for record in self.records if there.get(record.first) != record]

    def pack(self) -> str:
        facts = _packed(self, _ROW)
        if self.claim:
            facts["claim"] = _packed(self.claim, _CLAIM)
        if self.records:
            facts["records"] = [_packed(record, _RECORD) for record in self.records]
        if self.paused:
            facts["paused"] = _packed(self.paused, _PAUSE)
        return _encode(facts)


def read(cursor: Cursor) -> Row:
    """The row in a store's cursor."""
    facts = json_text.loads(cursor.body)
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
    except TypeError as error:  # a field of a newer version, which a move by this one would drop
        raise StoreUnreachable(
            f"the row of {cursor.job} was written by a newer Nightlatch ({error}): upgrade this one"
        ) from error


_encode = json_text.encoder(compact=True)


def _fields(blank: object, without: Collection[str] = ()) -> list[tuple[str, object]]:
    """The fields of a kind of value, each with the content that is not written. `blank`: has every default."""
    return [(name, default) for name, default in blank.__dict__.items() if name not in without]


_COLUMNS, _PACKED = ("job", "id", "slot"), ("claim", "records", "paused")
_ROW = _fields(Row(job="", slot=-1.0, next_due=-1.0), (*_COLUMNS, *_PACKED))
_CLAIM = _fields(Claim(id="", slot=-1.0))
_RECORD = _fields(SlotRecord(first=-1.0, last=-1.0, outcome=""))
_PAUSE = _fields(Pause(by="", at=-1.0))


def _packed(one: object, fields: list[tuple[str, object]]) -> dict[str, Any]:
    values = one.__dict__
    return {name: value for name, default in fields if (value := values[name]) != default}
