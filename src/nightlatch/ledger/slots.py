"""What became of slots: a record for each range of them, by job and first slot. A job's row in the store holds its
newest records; the machine that moves the row on inserts them here first. No transaction spans store and ledger, so
this may happen twice: inserting a record again changes nothing."""

from __future__ import annotations

from ..core.row import SlotRecord
from ..core.value import value
from . import kinds
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .tables import Tables


@value(frozen=True, kw_only=True)
class JobSlotRecord:
    """A record and its job; fields as in `SlotRecord`."""

    job: str
    first: float
    last: float
    count: int
    outcome: str
    reason: str
    slot: float
    run: str
    host: str
    at: float
    era: int

    @property
    def record(self) -> SlotRecord:
        return SlotRecord(**{name: value for name, value in self.__dict__.items() if name != "job"})


_UPDATED = ["last", "count", "outcome", "reason", "slot", "run", "host", "at", "era"]
# Several machines may insert the same range: a later era wins, and within an era the longer range.
_RECORD = TypedTable(
    "slot_record",
    JobSlotRecord,
    f"ON CONFLICT (job, first) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _UPDATED)} "
    "WHERE excluded.era > slot_record.era OR (excluded.era = slot_record.era AND excluded.last > slot_record.last)",
)
_BEYOND = "WHERE job = :job AND last > :time AND era < :era AND outcome <> 'ran' AND run = ''"
_REMOVE = "DELETE FROM {prefix}slot_record WHERE job = :job AND first = :first"
_CUT = "UPDATE {prefix}slot_record SET last = :last, count = :count WHERE job = :job AND first = :first"


class Slots:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def put(self, records: Iterable[tuple[str, SlotRecord]], *, lazy: bool = False) -> None:
        """Insert records that are not there yet, each with its job, in one transaction. `lazy`: they need not be on the
        disk yet; the next commit of anything flushes them too."""
        rows = [JobSlotRecord(job=job, **record.__dict__) for job, record in records]
        if not rows:
            return
        sql = self._tables.sql(_RECORD.put)
        if len(rows) == 1:  # the usual case: it needs no transaction
            self._tables.database.write(f"{sql} RETURNING job", lazy=lazy, **_RECORD.by_column(rows[0]))
            return
        with self._tables.database.transaction(lazy=lazy) as execute:
            for row in sorted(rows, key=lambda row: (row.job, row.first)):  # one order for all writers: no deadlock
                execute(sql, **_RECORD.by_column(row))

    def of(self, job: str, since: float = 0.0) -> Iterator[SlotRecord]:
        """The records of a job, the oldest first."""
        since_then = "WHERE job = :job AND last >= :since ORDER BY first"
        return (row.record for row in self._tables.select(_RECORD, since_then, job=job, since=round(since * 1000)))

    def strike(self, job: str, time: float, era: int, cut: Callable[[float, float], tuple[float, int]]) -> None:
        """Strike out records after `time` from earlier eras, made when a clock was ahead. Records that name a run stay.

        `cut(first, time)`: where a range that begins at `first` ends if it is cut at `time`, and how many slots it has.
        """
        values = {"job": job, "time": round(time * 1000), "era": era}
        struck = [row.record for row in self._tables.select(_RECORD, _BEYOND, **values)]
        if not struck:
            return
        with self._tables.on_chain(job) as chain:
            for record in struck:
                first = round(record.first * 1000)
                if record.first > time:
                    chain(_REMOVE, job=job, first=first)
                else:
                    last, count = cut(record.first, time)
                    chain(_CUT, job=job, first=first, last=round(last * 1000), count=count)
            chain.append(kinds.STRUCK, time=time, era=era, slots=sum(record.count for record in struck))


def merged(ledger: Iterable[SlotRecord], row: Iterable[SlotRecord]) -> list[SlotRecord]:
    """The ledger's records, or the row's where the ledger's are older or missing; the oldest first."""
    found = {record.first: record for record in ledger}
    for record in row:
        known = found.get(record.first)
        if known is None or (known.era, known.last) < (record.era, record.last):
            found[record.first] = record
    return [found[first] for first in sorted(found)]
