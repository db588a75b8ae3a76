"""The next 24 hours: each job's slots, with what they usually take and cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..core import statuses
from ..core.row import NEVER, Row
from ..core.units import UNITS
from ..core.value import value
from ..observe.reader import StoreReader
from ..observe.slots import is_overdue
from ..scheduler.scheduled import times_of

_DAY = 86400.0
_SHOWN = 12  # jobs that are listed
_KEPT = 300.0  # seconds before the usual is computed again: one run hardly changes it
_DAYS = 30  # the last days, from which the average cost is computed
USUAL = 20  # the last runs, from which the usual time and cost are computed


@value(frozen=True, kw_only=True)
class UpcomingSlot:
    at: float
    job: str
    more: int  # further slots of the job within 24 hours
    stage: str
    takes: float  # seconds; 0: not known
    usd: float


@value(frozen=True, kw_only=True)
class Upcoming:
    slots: int
    usd: float
    rows: tuple[UpcomingSlot, ...]
    more: int  # jobs that are not shown


def upcoming(reader: StoreReader, jobs: Sequence[Row], now: float) -> Upcoming:
    """The usual time and cost are read only for listed jobs; the others count with their average cost."""
    due = [row for row in jobs if row.next_due < min(now + _DAY, NEVER) and not row.paused and not is_overdue(row, now)]
    due.sort(key=lambda row: (row.next_due, row.job))
    costs = reader.cached("cost of runs", _KEPT, lambda: _costs(reader, now)) if len(due) > _SHOWN else {}
    found: list[UpcomingSlot] = []
    slots, expected = 0, 0.0
    for row in due:
        times = times_of(row.schedule)
        more = max(times.count(max(row.next_due - 1, now - _DAY), now + _DAY) - 1, 0) if times else 0
        takes, usd = usual(reader, row.job) if len(found) < _SHOWN else (0.0, costs.get(row.job, 0.0))
        if len(found) < _SHOWN:
            found.append(UpcomingSlot(at=row.next_due, job=row.job, more=more, stage=row.stage, takes=takes, usd=usd))
        slots, expected = slots + more + 1, expected + usd * (more + 1)
    return Upcoming(slots=slots, usd=expected, rows=tuple(found), more=len(due) - len(found))


def _costs(reader: StoreReader, now: float) -> dict[str, float]:
    """By job, what a run has cost on average in the last days."""
    history = reader.ledger.history
    sums = history.sums(("job",), ("usd", "runs"), since=history.day(now - _DAYS * _DAY))
    return {job: usd / UNITS["usd"].scale / max(runs, 1) for job, usd, runs in sums}


def usual(reader: StoreReader, job: str) -> tuple[float, float]:
    """The medians (seconds, usd) of a job's last runs that succeeded."""
    return reader.cached(("usual", job), _KEPT, lambda: _usual(reader, job))


def _usual(reader: StoreReader, job: str) -> tuple[float, float]:
    ended = [one for one in reader.ledger.history.series(job, most=USUAL) if one.status == statuses.SUCCEEDED]
    if not ended:
        return 0.0, 0.0
    return median(one.elapsed for one in ended), median(one.amounts.usd for one in ended)
