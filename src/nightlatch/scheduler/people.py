"""A person's decisions about a job's slots: pause or unpause them, skip one, set the time from which they count. Each
decision is one move of the row, journaled with the person's name."""

from __future__ import annotations

from collections.abc import Callable

from ..core import advice, definition, slots
from ..core.protocols import Store
from ..core.row import SKIPPED, Pause, Row, SlotRecord
from ..core.schedule import name_of
from ..core.value import replace
from ..errors import UsageError
from ..ledger import kinds
from ..ledger.ledger import Ledger
from ..runtime.supervisor.run.rows import KEPT, move_row, read_row
from ..system import identity
from . import row_plan
from .scheduled import times_of


class JobSlots:
    """The slots of one job, and a person's decisions about them."""

    def __init__(self, store: Store, ledger: Ledger, job: str, by: str) -> None:
        self._store, self._ledger, self._job, self._by = store, ledger, job, by

    def pause(self, until: float = 0.0, reason: str = "") -> Row:
        now = self._store.clock()
        if until and until <= now:
            raise UsageError("--until is in the past: give a time in the future, as in 2d or 2026-12-01T08:00")
        row = self._move(lambda row: replace(row, paused=Pause(by=self._by, at=now, until=until, reason=reason)))
        self._note(kinds.PAUSED, by=self._by, until=name_of(int(until)) if until else None, reason=reason or None)
        return row

    def unpause(self) -> Row:
        """Continue with the next slot; slots that came due during the pause are skipped."""
        now = self._store.clock()

        def change(row: Row) -> Row:
            if row.paused is None:
                raise UsageError(f"{self._job} is not paused")
            return self._skip_due(replace(row, paused=None), now, slots.PAUSED)

        row = self._move(change)
        self._note(kinds.UNPAUSED, by=self._by)
        return row

    def skip(self, slot: float) -> Row:
        """Skip a future slot, or a due one that is not claimed yet."""
        now = self._store.clock()

        def change(row: Row) -> Row:
            times = times_of(row.schedule)
            if times is None or times.next(slot - 1) != slot:
                raise UsageError(f"{name_of(slot)} is not a slot of {self._job}: {_next_slot(row, now)}")
            if slot <= row.slot or slot in row.passed:
                look = advice.command("slots", self._job)
                raise UsageError(f"{name_of(slot)} was already decided: {look} says how")
            return replace(row, passed=tuple(sorted({*row.passed, slot})))

        row = self._move(change)
        record = SlotRecord(
            first=slot, last=slot, outcome=SKIPPED, reason=slots.BY_HAND, host=identity.host(), at=now, era=row.era
        )
        self._ledger.slots.put([(self._job, record)])
        self._note(kinds.SLOT_SKIPPED, slot=name_of(slot), by=self._by)
        return row

    def go_on_from(self, time: float) -> Row:
        """Count slots from `time` on, whatever the row says: for a row that a wrong clock has moved ahead."""
        if time > self._store.clock():  # a store would refuse the move
            pause = advice.command("pause", self._job, "--until", name_of(time).removesuffix("Z"))
            raise UsageError(f"--from {name_of(time)} is in the future. To skip the slots until then: {pause}")

        def change(row: Row) -> Row:
            times = times_of(row.schedule)
            if times is None:
                raise UsageError(f"{self._job} has no schedule")
            begin = time - 1
            decided = row_plan.still_decided(row, self._ledger.slots.of(self._job, begin), begin)
            kept = tuple(record for record in row.records if record.names_a_run or record.last < time)
            return replace(
                row, slot=begin, next_due=float(times.next(begin)), era=row.era + 1, struck=row.set_back_to(begin),
                passed=tuple(sorted(decided)), records=kept,
            )  # fmt: skip

        row = self._move(change)
        self._note(kinds.SET_BACK, to=name_of(int(time)), era=row.era, by=self._by)
        return row

    def define(self, mine: str) -> Row:
        """Bring a definition into force, whatever the row has: a person decides where machines differ."""
        was: list[str] = []

        def change(row: Row) -> Row:
            was[:] = [row.definition]
            return definition.renewed(row, mine)

        row = self._move(change)
        self._note(kinds.DEFINED, definition=mine[:12], was=was[0][:12], by=self._by)
        return row

    def _skip_due(self, row: Row, now: float, reason: str) -> Row:
        """The row after all slots that are due by `now` are skipped."""
        times, record = times_of(row.schedule), row_plan.skipped_slots(row, now, reason, identity.host())
        if times is None or record is None:
            return row
        records = row.with_records(record, keep=KEPT if self._store.lists_begun else 0)
        return replace(row, slot=record.last, next_due=float(times.next(record.last)), records=records)

    def _move(self, change: Callable[[Row], Row]) -> Row:
        while True:
            row = read_row(self._store, self._job)
            if row is None:
                raise UsageError(
                    f"the store knows no job {self._job!r}: {advice.command('slots')} lists those that it knows. A job "
                    f"of nightlatch.toml is known once `nightlatch serve` or `nightlatch tick` has looked at it"
                )
            new = change(row)
            if move_row(self._store, self._ledger, row, new):
                return new

    def _note(self, kind: str, **facts: object) -> None:
        self._ledger.journal.note(self._job, kind, **{name: fact for name, fact in facts.items() if fact is not None})


def _next_slot(row: Row, now: float) -> str:
    times = times_of(row.schedule)
    return f"the next one is {name_of(times.next(max(now, row.slot)))}" if times else "it has no schedule"
