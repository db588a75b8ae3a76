"""The next 24 hours: each job's slots, with what they usually take and cost."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ..core import statuses
from ..core.row import NEVER
from ..core.value import value
from ..observe.slots import is_overdue
from ..scheduler.scheduled import times_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.row import Row
    from ..observe.reader import StoreReader

_DAY = 86400.0
_SHOWN = 12
_KEPT = 300.0  # seconds: what is usual does not change with one run
_RUNS = 20  # from which the usual is computed


@value(frozen=True, kw_only=True)
class Coming:
    at: float
    job: str
    more: int  # slots of the same job after it
    stage: str
    takes: float  # seconds; 0: not known
    usd: float


@value(frozen=True, kw_only=True)
class Upcoming:
    slots: int
    usd: float
    rows: tuple[Coming, ...]
    more: int


def upcoming(reader: StoreReader, jobs: Sequence[Row], now: float) -> Upcoming:
    found = []
    for row in jobs:
        if row.next_due >= min(now + _DAY, NEVER) or row.paused or is_overdue(row, now):
            continue
        times = times_of(row.schedule)
        slots = times.count(max(row.next_due - 1, now - _DAY), now + _DAY) if times else 1
        takes, usd = usual(reader, row.job)
        found.append(
            Coming(at=row.next_due, job=row.job, more=max(slots - 1, 0), stage=row.stage, takes=takes, usd=usd)
        )
    found.sort(key=lambda one: (one.at, one.job))
    return Upcoming(
        slots=sum(one.more + 1 for one in found),
        usd=sum(one.usd * (one.more + 1) for one in found),
        rows=tuple(found[:_SHOWN]),
        more=max(len(found) - _SHOWN, 0),
    )


def usual(reader: StoreReader, job: str) -> tuple[float, float]:
    """The medians (seconds, usd) of a job's last runs that succeeded."""
    return reader.kept(("usual", job), _KEPT, lambda: _usual(reader, job))


def _usual(reader: StoreReader, job: str) -> tuple[float, float]:
    ended = [one for one in reader.ledger.history.series(job, most=_RUNS) if one.status == statuses.SUCCEEDED]
    if not ended:
        return 0.0, 0.0
    return median(one.elapsed for one in ended), median(one.amounts.usd for one in ended)
