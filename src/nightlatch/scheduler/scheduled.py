"""A job with its schedule, as a scheduler sees it."""

from __future__ import annotations

from collections.abc import Collection, Container

from ..core import hosts, schedule
from ..core.job import Job
from ..core.row import NEVER, Claim
from ..core.schedule import COUNTED
from ..core.slots import TURN, Due, Policy
from ..core.stage import UNATTENDED
from ..core.value import replace
from ..errors import UsageError
from ..system.zone import find


class Scheduled:
    """`definition`: the hash of what the job is. Parsing a schedule takes time, so an instance is kept until
    nightlatch.toml changes."""

    def __init__(self, job: Job, definition: str) -> None:
        self.job, self.definition = job, definition
        self.text = "\n".join((*job.schedule, job.tz)) if job.schedule else ""
        self._policies: dict[str, tuple[float | None, Policy]] = {}  # host → the last slot asked about, and its policy
        self._times = schedule.parse(job.schedule, find(job.tz)) if job.schedule else None

    def next(self, after: float) -> float:
        """The first slot after a time."""
        return float(self._times.next(after)) if self._times else NEVER

    def due(self, after: float, until: float) -> Due | None:
        """The slots after one time, and at or before another."""
        first = self.next(after)
        return self.due_from(first, until) if first <= until else None

    def due_from(self, first: float, until: float, passed: Container[float] = ()) -> Due:
        """The slots from `first`, itself a slot, until a time. They begin with one that has no outcome yet (is not in
        `passed`): a range is recorded under its first slot, and would replace that slot's outcome."""
        assert self._times
        first = _first_open(self._times, first, until, passed)
        second = self._times.next(first)
        if second > until:  # only one slot is due, as in nearly all looks
            return Due(first=first, newest=first, following=float(second))
        newest = self._times.newest(until)
        return Due(
            first=first,
            newest=float(newest),
            previous=float(self._times.newest(newest - 1)),
            count=self._times.count(first - 1, until),
            following=float(self._times.next(until)),
        )

    def cut(self, first: float, time: float) -> tuple[float, int]:
        """(end, count) of a range of slots from `first` that is cut at a time. It ends at that time, not at a slot: the
        range may be of a schedule that was edited since."""
        return time, self._times.count(first - 1, time) if self._times else 1

    def policy(self, host: str, newest: float | None) -> Policy:
        if not self.job.jitter:
            newest = None  # without jitter the policy is the same for every slot
        known = self._policies.get(host)
        if known is None or known[0] != newest:
            known = self._policies[host] = newest, self._policy(host, newest)
        return known[1]

    def _policy(self, host: str, newest: float | None) -> Policy:
        job = self.job
        put_off = schedule.jitter(job.name, int(newest), job.jitter) if newest else 0.0
        turn = hosts.turn(job.hosts, host)
        return Policy(
            overlap=job.overlap,
            catch_up=job.catch_up,
            late=job.late,
            delay=None if turn is None else turn * TURN + put_off,
            stage=self.job.stage or UNATTENDED,
            expires=job.expires,
        )

    def start(self, claim: Claim) -> Job:
        """The job for the slot that was claimed."""
        return replace(self.job.at(schedule.name_of(claim.slot)), missed=claim.missed, since=claim.since)


def times_of(text: str) -> schedule.Schedule | None:
    """Parse a schedule as a row keeps it; None: there is none, or this program cannot read it."""
    *lines, zone = text.split("\n")
    try:
        return schedule.parse(lines, find(zone)) if lines else None
    except UsageError:
        return None


def due_before(
    text: str, after: float, until: float, passed: Collection[float] = ()
) -> tuple[float, float, int] | None:
    """(first, last, count) of the slots after one time, and at or before another; None: there are none. `text`: the
    schedule as a row keeps it. Slots that have an outcome already (`passed`) do not count."""
    times = times_of(text)
    if times is None or times.next(after) > until:
        return None
    first, last = _first_open(times, times.next(after), until, passed), times.newest(until)
    if first in passed:
        return None
    count = min(times.count(first - 1, until), COUNTED + 1) - sum(first <= slot <= last for slot in passed)
    return float(first), float(last), count


def _first_open(times: schedule.Schedule, first: float, until: float, passed: Container[float]) -> float:
    """The first slot that has no outcome yet; if all have one, the last slot."""
    while first in passed and (following := times.next(first)) <= until:
        first = float(following)
    return first
