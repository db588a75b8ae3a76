"""The jobs' slots: one line for each job, or what became of one job's slots."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import row as rows
from ..core.row import COLLAPSED, RAN, SKIPPED, Claim, Row, SlotRecord
from ..core.schedule import COUNTED, name_of
from ..core.stage import MANUAL
from ..core.value import value
from ..ledger.slots import merged
from .reader import StoreReader

OVERDUE = 600.0  # an unclaimed slot is overdue when it has been due for so many seconds


@value(frozen=True, kw_only=True)
class JobLine:
    """One job's slots."""

    row: Row
    last: SlotRecord | None  # the newest record
    overdue: bool
    skipped: float  # share of the slots, 0 to 1

    @property
    def running(self) -> Claim | None:
        """The job's claim, if it is open."""
        claim = self.row.claim
        return claim if claim and claim.is_open else None

    def facts(self) -> dict[str, object]:
        row, claim = self.row, self.running
        return {
            "version": 1,
            "job": row.job,
            "next": None if row.next_slot is None else name_of(row.next_slot),
            "last": None if self.last is None else {"slot": name_of(self.last.last), "outcome": self.last.outcome},
            "claimed": None if claim is None else {
                "slot": name_of(claim.slot), "by": claim.by, "begun": claim.attempted,
            },
            "overdue": self.overdue,
            "skipped": round(self.skipped, 4),
            "failures": row.failures,
            "last_success": row.last_success or None,
            "paused": None if row.paused is None else {
                "by": row.paused.by, "until": row.paused.until or None, "reason": row.paused.reason,
            },
            "stage": row.stage or None,
        }  # fmt: skip


def lines(reader: StoreReader, since: float) -> list[JobLine]:
    """One line for each job, overdue jobs first. The share of skipped slots counts slots from `since` on."""
    now = reader.store.clock()
    found = [_line(reader, rows.read(cursor), since, now) for cursor in reader.store.cursors()]
    return sorted(found, key=lambda line: (not line.overdue, line.row.job))


def overdue(reader: StoreReader) -> list[Row]:
    """Jobs with a slot that is long due and that no machine has claimed."""
    now = reader.store.clock()
    found = [rows.read(cursor) for cursor in reader.store.cursors(due=now - OVERDUE)]
    return [row for row in found if is_overdue(row, now)]


def is_overdue(row: Row, now: float) -> bool:
    at_work = row.claim is not None and row.claim.is_open
    return row.next_due < now - OVERDUE and not at_work and row.paused is None and row.stage != MANUAL


def ranges(reader: StoreReader, job: str, since: float) -> tuple[Row | None, list[SlotRecord]]:
    """The job's row, and its slot records from `since` on, the oldest first."""
    found = reader.store.cursors([job])
    row = rows.read(found[0]) if found else None
    in_row = [record for record in row.records if record.last >= since] if row else []
    return row, merged(reader.ledger.slots.of(job, since), in_row)


def facts(job: str, record: SlotRecord) -> dict[str, object]:
    return {
        "version": 1,
        "job": job,
        "slot": name_of(record.slot or record.last),
        "first": name_of(record.first),
        "count": record.count,
        "outcome": record.outcome,
        "reason": record.reason,
        "run": record.run,
        "host": record.host,
        "at": record.at,
    }


@value(frozen=True, kw_only=True)
class Counts:
    """How many slots had each outcome, and how many were skipped for each reason."""

    outcomes: dict[str, int]
    reasons: dict[str, int]
    more: bool  # there are more slots than counted: a record stops at COUNTED + 1


def counts(records: Iterable[SlotRecord]) -> Counts:
    records = list(records)
    reasons: dict[str, int] = {}
    for one in records:
        if one.outcome == SKIPPED:
            word = one.reason.partition(":")[0]
            reasons[word] = reasons.get(word, 0) + one.count
    return Counts(
        outcomes={word: sum(one.count for one in records if one.outcome == word) for word in (RAN, COLLAPSED, SKIPPED)},
        reasons=dict(sorted(reasons.items(), key=lambda one: -one[1])),
        more=any(one.count > COUNTED for one in records),
    )


def _line(reader: StoreReader, row: Row, since: float, now: float) -> JobLine:
    records = merged(reader.ledger.slots.of(row.job, since), row.records)
    total = sum(one.count for one in records)
    skipped = sum(one.count for one in records if one.outcome == SKIPPED)
    return JobLine(
        row=row,
        last=records[-1] if records else None,
        overdue=is_overdue(row, now),
        skipped=skipped / total if total else 0.0,
    )
