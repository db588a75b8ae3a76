"""A simulation: what would happen to the slots of the next weeks if this machine slept at certain hours. It uses the
function that decides about real slots, and assumes that every run succeeds at once."""

from __future__ import annotations

import datetime

from ..core import slots
from ..core.row import COLLAPSED, SKIPPED, Row
from ..core.slots import AFTER_WAKE, Observation
from ..core.value import replace, value
from ..errors import UsageError
from .scheduled import Scheduled

DAYS = 30
_LATE = 60.0  # seconds; a slot that is started later than that was slept through


@value(frozen=True, kw_only=True)
class Nap:
    """Hours of the day at which the machine sleeps, as minutes after midnight by this machine's wall clock."""

    begin: int
    end: int

    def wakes(self, at: float, zone: datetime.tzinfo) -> float:
        """The first time, from `at` on, when the machine is awake."""
        local = datetime.datetime.fromtimestamp(at, zone)
        minute = local.hour * 60 + local.minute
        asleep = self.begin <= minute < self.end or (self.begin > self.end and not self.end <= minute < self.begin)
        if not asleep:
            return at
        woken = local.replace(hour=self.end // 60, minute=self.end % 60, second=0, microsecond=0)
        if woken <= local:
            woken += datetime.timedelta(days=1)
        return woken.timestamp() + AFTER_WAKE


@value(frozen=True, kw_only=True)
class SimulatedSlots:
    """What becomes of a job's slots in the simulation."""

    job: str
    slots: int
    on_time: int
    late: int
    latest: float  # seconds
    collapsed: int
    skipped: tuple[tuple[str, int], ...]  # by reason
    example: tuple[float, float] | None  # a slot that was run late, and when


def parse(text: str) -> Nap:
    """Parse hours such as 23:00-07:00."""
    try:
        begin, end = (datetime.datetime.strptime(part.strip(), "%H:%M") for part in text.split("-"))
    except ValueError:
        raise UsageError(f"--asleep {text!r}: write when it falls asleep and wakes, as in 23:00-07:00") from None
    if begin == end:
        raise UsageError(f"--asleep {text!r}: the two times are the same")
    return Nap(begin=begin.hour * 60 + begin.minute, end=end.hour * 60 + end.minute)


def simulate(job: Scheduled, nap: Nap, host: str, now: float, zone: datetime.tzinfo) -> SimulatedSlots | None:
    """Simulate the next `DAYS` days of a job; None if it has no schedule, or never runs on `host`."""
    if not job.job.schedule or job.policy(host, None).delay is None:
        return None
    begin = float(int(now))
    row = Row(job=job.job.name, slot=begin, next_due=job.next(begin))
    end = begin + DAYS * 86400
    on_time, late, latest, collapsed, example = 0, 0, 0.0, 0, None
    skipped: dict[str, int] = {}
    at = nap.wakes(row.next_due, zone)
    while row.next_due <= end:
        due = job.due(row.slot, at)
        decision = slots.decide(row, due, job.policy(host, due.newest if due else None), Observation(now=at))
        for record in decision.records:
            if record.outcome == COLLAPSED:
                collapsed += record.count
            if record.outcome == SKIPPED:
                skipped[record.reason] = skipped.get(record.reason, 0) + record.count
        if decision.claim:
            lateness = at - decision.claim.slot
            put_off = job.policy(host, decision.claim.slot).delay or 0.0
            if lateness > put_off + _LATE:
                late, latest = late + 1, max(latest, lateness)
                example = example or (decision.claim.slot, at)
            else:
                on_time += 1
        if decision.slot is not None:
            row = replace(row, slot=decision.slot, next_due=job.next(decision.slot))
        next_look = decision.look_at if decision.slot is None else row.next_due
        at = nap.wakes(max(at if decision.slot is not None else at + 1.0, next_look), zone)
    return SimulatedSlots(
        job=job.job.name,
        slots=on_time + late + collapsed + sum(skipped.values()),
        on_time=on_time,
        late=late,
        latest=latest,
        collapsed=collapsed,
        skipped=tuple(sorted(skipped.items())),
        example=example,
    )
