"""The store and the ledger of the simulator: what they promise, in memory, with faults."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from nightlatch.core import row as rows
from nightlatch.core import statuses
from nightlatch.core.model import Begun, Holder, Record
from nightlatch.core.row import Cursor, Move, Row, SlotRecord
from nightlatch.core.value import replace
from nightlatch.errors import Busy, StoreUnreachable
from nightlatch.runtime.supervisor.run.rows import KEPT
from tests.support.scheduling.sim_checks import Stretches

TTL = 60.0
_NEWER = ',"newer":1}'  # what a newer program adds to a row, and an older one cannot read
_CHECKED = 20  # moves; one of so many is packed, read and compared: both take half of a course's time
_pack, _read = Row.pack, rows.read


class Body:
    """What a row keeps besides its cursor: here the row itself, which each program packs and reads."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.newer = False  # has it what only a newer program can read?


class Shared:
    """What all machines agree on."""

    def __init__(self, *, clockless: bool, server: Callable[[], float] | None) -> None:
        self.rows: dict[str, Cursor] = {}
        self.leases: dict[str, SimpleNamespace] = {}
        self.done: set[tuple[str, str]] = set()
        self.clockless, self.server = clockless, server
        self.token = 0
        self.stretches: dict[str, Stretches] = {}  # by job
        self.passed: dict[str, set[int]] = {}  # by job: slots that its row has listed as decided beyond it
        self.now: Callable[[], float] = lambda: 0.0
        self.left: dict[str, list[tuple[SlotRecord, float, float]]] = {}  # by job: what a full row dropped; came, went
        self._came: dict[tuple[str, float], tuple[SlotRecord, float]] = {}  # by job and slot: the newest records
        self._moves = 0
        self._in_force: dict[str, list[str]] = {}  # by job: definitions, the last one now
        self._since: dict[str, int] = {}  # by job: the commit that has put it in force
        self.commit: Callable[[str], int] = lambda _: 0  # of a job, in the file of the process that is working
        self.wrong: list[str] = []  # what was seen on the way
        self.reads_newer = False  # a measure that is taken away: a row of a newer program is read, and cut
        self.compares_nothing = False  # another: a move wins over one that it has not seen
        self.ignores_clock = False  # another: slots may be passed that are still to come

    def read(self, job: str, program: int) -> Cursor:
        cursor = self.rows[job]
        body: Any = cursor.body
        if body.newer and program == 1 and not self.reads_newer:
            return replace(cursor, body=_pack(body.row).removesuffix("}") + _NEWER)
        return cursor

    def move(self, move: Move, program: int) -> None:
        before = self.rows.get(move.job)
        body: Any = move.body
        row = body.row if body.row.id == move.id else replace(body.row, id=move.id)
        body.row, body.newer = row, program > 1
        self.rows[move.job] = Cursor(job=move.job, id=move.id, slot=move.slot, wake=move.wake, body=body)
        self._moves += 1
        if self._moves % _CHECKED == 0:
            self._check(row)
        minutes = int(row.schedule.removeprefix("every ").partition("m")[0])
        if before and program == 1 and before.body.newer:  # type: ignore[attr-defined]
            self.wrong.append(f"{move.job}: an older program has dropped what a newer one wrote")
        if self.clockless:
            self._note_records(before.body.row.records if before else (), row)  # type: ignore[attr-defined]
        self._defined(move.job, row.definition)
        self.passed.setdefault(move.job, set()).update(map(int, row.passed))
        stretches = self.stretches.setdefault(move.job, Stretches())
        stretches.moved(int(move.slot), int(before.slot) if before else None, minutes)

    def _defined(self, job: str, definition: str) -> None:
        there = self._in_force.setdefault(job, [definition])
        if there[-1] != definition:
            commit = self.commit(job)
            if definition in there and commit < self._since.get(job, 0):
                self.wrong.append(f"{job}: an older file has put {definition} in the place of {there[-1]}")
            self._since[job] = commit
            there.append(definition)

    def _note_records(self, before: tuple[SlotRecord, ...], row: Row) -> None:
        for record in row.records[-2:]:
            if self._came.get((row.job, record.first), (None, 0.0))[0] is not record:
                self._came[row.job, record.first] = record, self.now()
        if len(before) >= KEPT and before[0] is not row.records[0]:
            _, came = self._came[row.job, before[0].first]
            self.left.setdefault(row.job, []).append((before[0], came, self.now()))

    def _check(self, row: Row) -> None:
        """What a program packs and another reads is the row."""
        cursor = Cursor(job=row.job, id=row.id, slot=row.slot, wake=row.wake, body=_pack(row))
        if (there := _read(cursor)) != row:
            self.wrong.append(f"{row.job}: a row is read as another: {there} for {row}")


def packed(row: Row) -> Body:
    """As `Row.pack`."""
    return Body(row)


def parsed(cursor: Cursor) -> Row:
    """As `row.read`."""
    body: Any = cursor.body
    return body.row if isinstance(body, Body) else _read(cursor)


class SimStore:
    """One process's way to it. `fault` may raise before an act, or after it: then only the reply is lost."""

    def __init__(
        self, shared: Shared, wall: Callable[[], float], fault: Callable[[str], None], program: int = 1
    ) -> None:
        self._shared, self._wall, self._fault, self._program = shared, wall, fault, program
        self.lists_begun = shared.clockless
        self.folder = ""

    def clock(self) -> float:
        return self._shared.server() if self._shared.server else self._wall()

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        self._fault("before")
        there = self._shared.rows
        found = there if jobs is None else [job for job in jobs if job in there]
        return [self._shared.read(job, self._program) for job in found if due is None or there[job].wake <= due]

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        self._fault("stall")
        self._fault("before")
        won = [self._move(move) for move in moves]
        self._fault("after")
        return won

    def _move(self, move: Move) -> bool:
        row = self._shared.rows.get(move.job)
        if row and row.id == move.id:
            return True
        if (row.id if row else "") != move.seen and not self._shared.compares_nothing:
            return False
        passes = move.slot > self.clock() and not (row and move.slot <= row.slot)
        if passes and not self._shared.ignores_clock:
            return False
        self._shared.move(move, self._program)
        return True

    # ── leases: by the true time, which no fault touches ──

    def acquire(self, job: str, grant: str, holder: Any, now: float) -> int:
        self._fault("before")
        lease = self._shared.leases.setdefault(
            job, SimpleNamespace(grant="", token=0, confirmed=0.0, holder=None, key="")
        )
        if lease.grant and lease.grant != grant and not self.is_over(job, holder.machine, now):
            raise Busy(f"{job} is held", _record(job, lease))
        self._shared.token += 1
        lease.grant, lease.token, lease.confirmed, lease.holder, lease.key = (
            grant, self._shared.token, now, holder, holder.key,
        )  # fmt: skip
        return int(lease.token)

    def is_over(self, job: str, machine: Any, now: float) -> bool:
        """Its holder is proven gone, which only its own machine can, or its time is over."""
        lease = self._shared.leases.get(job)
        if lease is None or not lease.grant:
            return True
        gone = lease.holder.machine is machine and lease.holder.gone
        return bool(gone) or now > lease.confirmed + TTL * (1.25 if self._shared.clockless else 1.0)

    def holds(self, job: str, grant: str) -> bool:
        lease = self._shared.leases.get(job)
        return lease is not None and lease.grant == grant

    def renew(self, job: str, grant: str, now: float) -> bool:
        if self.holds(job, grant):
            self._shared.leases[job].confirmed = now
            return True
        return False

    def release(self, job: str, grant: str) -> None:
        if self.holds(job, grant):
            self._shared.leases[job].grant = ""


def _record(job: str, lease: SimpleNamespace) -> Record:
    begun = (Begun(key=lease.key, token=lease.token),) if lease.key else ()
    return Record(
        name=job, token=lease.token, grant=lease.grant, holder=Holder.unpack(""), ttl=TTL, since=0.0, until=0.0,
        left=None, version="", begun=begun,
    )  # fmt: skip


class SimLeases:
    """What one look of a daemon sees."""

    def __init__(self, store: SimStore, machine: Any, now: Callable[[], float]) -> None:
        self._store, self._machine, self._now = store, machine, now

    def look(self, jobs: Collection[str]) -> None:
        pass

    def holder(self, job: str) -> str:
        lease = self._store._shared.leases.get(job)
        if lease is None or not lease.grant or self._store.is_over(job, self._machine, self._now()):
            return ""
        return str(lease.grant)


class SimSlots:
    def __init__(self, fault: Callable[[str], None]) -> None:
        self.records: dict[str, dict[float, SlotRecord]] = {}
        # By job and era: (last, first) of all records that were ever put and may be struck out.
        self._ends: dict[str, dict[int, list[tuple[float, float]]]] = {}
        self.fault = fault

    def put(self, records: Iterable[tuple[str, SlotRecord]], *, lazy: bool = False) -> None:
        self.fault("before")
        for job, record in records:
            records_of = self.records.setdefault(job, {})
            there = records_of.get(record.first)
            if there is None or (there.era, there.last) < (record.era, record.last):
                self._put(job, record)
        self.fault("after")

    def of(self, job: str, since: float = 0.0) -> Iterator[SlotRecord]:
        found = self.records.get(job, {})
        return (found[first] for first in sorted(found) if found[first].last >= since)

    def strike(self, job: str, time: float, era: int, cut: Callable[[float, float], tuple[float, int]]) -> None:
        earlier = [ends for of, ends in self._ends.get(job, {}).items() if of < era]
        there = self.records.get(job, {})
        for last, first in [one for ends in earlier for one in ends[bisect_right(ends, (time, float("inf"))) :]]:
            record = there.get(first)
            if record is None or record.last != last or record.era >= era or record.names_a_run:
                continue
            if first > time:
                del there[first]
            else:
                end, count = cut(first, time)
                self._put(job, replace(record, last=end, count=count))

    def _put(self, job: str, record: SlotRecord) -> None:
        self.records.setdefault(job, {})[record.first] = record
        if not record.names_a_run:
            insort(self._ends.setdefault(job, {}).setdefault(record.era, []), (record.last, record.first))


class SimLedger:
    """Runs and slot records; of one machine, or of all."""

    def __init__(self, fault: Callable[[str], None]) -> None:
        self.table: dict[tuple[str, str], SimpleNamespace] = {}
        self.slots = SimSlots(fault)
        self.journal = self.decisions = self.history = self  # of these it has what follows

    def find(self, job: str, key: str) -> Any:
        return self.table.get((job, key))

    def runs(self, *, job: str, status: str | None = None, limit: int = 0) -> list[Any]:
        found = [run for (name, _), run in self.table.items() if name == job and run.status in statuses.OPEN]
        return [run for run in found if status is None or run.status == status]

    def open(self, job: str, key: str) -> Any:
        new = SimpleNamespace(
            id=f"{job} {key}",
            job=job,
            key=key,
            status=statuses.PENDING,
            attempt=0,
            token=0,
            grant="",
            due=None,
            cancel="",
            approved="",
            reason="",
            held=None,
        )
        return self.table.setdefault((job, key), new)

    def request_cancel(self, run_id: str, by: str) -> None:
        for run in self.table.values():
            if run.id == run_id:
                run.cancel = by
                if run.status == statuses.WAITING:
                    run.status = statuses.CANCELLED

    def note(self, job: str, kind: str, **facts: object) -> None:
        pass

    def held(self, job: str) -> list[Any]:
        return []

    def uncounted(self, job: str) -> list[Any]:
        return []

    def last_note(self, job: str, kind: str) -> None:
        pass


def unreachable() -> StoreUnreachable:
    return StoreUnreachable("injected")
