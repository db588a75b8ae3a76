"""What must hold after a course of the simulator: every slot that was due, computed apart from the scheduler, has one
outcome; what ran began; no job is silent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from nightlatch.core.row import RAN, Row, SlotRecord
from nightlatch.core.schedule import name_of, named

LONGEST_RUN = 4000.0  # seconds


class Stretches:
    """Which schedule was in force from when on, as the moves of one row say it."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int]] = []  # from (without it), period

    def moved(self, slot: int, before: int | None, minutes: int) -> None:
        """The row has moved to `slot`; the schedule in force afterwards."""
        if before is not None and slot < before:  # set back: what was decided beyond it does not count
            self._found = [one for one in self._found if one[0] < slot]
        elif self._found and self._found[-1][1] == 60 * minutes:
            return
        self._found.append((slot, 60 * minutes))

    def due(self, until: int) -> list[int]:
        """All slots up to a time, in order."""
        ends = [*(begin for begin, _ in self._found[1:]), until]
        return [
            slot
            for (begin, period), end in zip(self._found, ends, strict=True)
            for slot in range((begin // period + 1) * period, end + 1, period)
        ]

    @property
    def period(self) -> int:
        return self._found[-1][1]


def wrong_outcomes(
    job: str, row: Row, known: Iterable[SlotRecord], due: list[int], passed: set[int], sealed: set[tuple[str, str]],
    acts: Iterable[str],
) -> Iterator[str]:  # fmt: skip
    """`due`: every slot up to the row's; `passed`: those that were decided beyond it, after a set-back. `sealed`: jobs
    and keys of which an attempt began; `acts`: keys that were done."""
    found = _by_slot(known, due)
    for slot, records in found.items():
        if len(records) > 1:
            # A range made after a set-back may reach over slots that had a run, or were at work: their own records
            # count, and the range does not count them.
            own = [one for one in records if one.names_a_run or (slot in passed and one.first == one.last)]
            if own and all(one in own or slot in passed or one.era > own[0].era for one in records):
                records[:] = own
        if len(records) > 1:
            yield f"{job}: {name_of(slot)} has {len(records)} outcomes: {records}"
        if records[0].outcome == RAN and (job, name_of(slot)) not in sealed:
            yield f"{job}: {name_of(slot)} ran, and no attempt began"
    yield from _missing(job, row, found, due)
    for key in acts:
        slot = named(key)
        if slot != _still(row) and (slot not in found or found[slot][0].outcome != RAN):
            yield f"{job}: {key} was done, and its outcome is {found.get(slot)}"


def missing(
    job: str, row: Row, known: Iterable[SlotRecord], due: list[int], left: Iterable[tuple[SlotRecord, float, float]],
    looks: list[float],
) -> Iterator[str]:  # fmt: skip
    """What one machine's ledger lacks. `left`: records that a full row dropped, and when they came and went; a machine
    that has not looked meanwhile (`looks`) cannot have them."""
    away = [record for record, came, went in left if bisect_left(looks, came) == bisect_left(looks, went)]
    return _missing(job, row, _by_slot([*known, *away], due), due)


def _missing(job: str, row: Row, found: dict[int, list[Any]], due: list[int]) -> Iterator[str]:
    lost = [slot for slot in due if slot not in found and slot != _still(row)]
    if lost:
        yield f"{job}: {len(lost)} slots without an outcome: {[name_of(one) for one in lost[:5]]}"


def _by_slot(known: Iterable[SlotRecord], due: list[int]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for record in known:
        if record.first == record.last:
            found.setdefault(int(record.first), []).append(record)
            continue
        for slot in due[bisect_left(due, int(record.first)) : bisect_right(due, int(record.last))]:
            found.setdefault(slot, []).append(record)
    return found


def _still(row: Row) -> int:
    """The slot that is at work."""
    return int(row.claim.slot) if row.claim and row.claim.is_open else 0


def silence(job: str, row: Row, period: int, now: float, calm: float) -> Iterator[str]:
    """`calm`: since then nothing has gone wrong."""
    at_work = LONGEST_RUN if row.claim and row.claim.is_open else 0.0  # a slot may wait for the run before it
    newest = int((now - period - 600 - at_work) // period) * period
    if not newest <= row.slot <= now:
        yield f"{job} is silent: decided up to {name_of(row.slot)}, at {name_of(int(now))}"
    if row.claim and row.claim.is_open and row.claim.slot < calm:
        yield f"{job}: the claim for {name_of(row.claim.slot)} does not end: {row.claim}"
