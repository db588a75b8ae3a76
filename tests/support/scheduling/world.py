"""One machine with one scheduler, on a real store and ledger, with clocks that a test can set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nightlatch.core.job import Job
from nightlatch.core.row import Row
from nightlatch.core.target import Command
from nightlatch.ledger import open_for
from nightlatch.ledger.slots import merged
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.scheduler.scheduler import Scheduler
from nightlatch.store import url
from nightlatch.system import clock, identity

HOUR = 3600.0
EVENING = 1_800_000_000.0 // 86400 * 86400 + 20 * HOUR


class Clocks:
    """The wall clock may be set; the machine may sleep."""

    def __init__(self) -> None:
        self.time, self.offset, self.slept = 1000.0, EVENING - 1000.0, 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time + self.offset

    def awake(self) -> float:
        return self.time - self.slept

    def sleep(self, seconds: float) -> None:
        self.time, self.slept = self.time + seconds, self.slept + seconds


class World:
    """One machine with one scheduler at a time; what it starts is noted, and ended by the test."""

    def __init__(self, store: str, clocks: Clocks) -> None:
        self.store, self.ledger, self.clocks = url.connect(store), open_for(store), clocks
        self.started: list[tuple[Job, str]] = []
        self.jobs: dict[str, Scheduled] = {}
        self.boot()

    def boot(self, at_once: int = 8) -> None:
        """A new daemon, which remembers nothing."""
        self.scheduler = Scheduler(
            self.store,
            self.ledger,
            host="here",
            at_once=at_once,
            clocks=self.clocks,  # type: ignore[arg-type]
            new_id=identity.new_id,
            start=lambda job, claim: self.started.append((job.start(claim), claim.id)),
        )
        self.scheduler.serve(self.jobs)

    def serve(self, *jobs: Job, at_once: int = 8) -> None:
        self.jobs = {job.name: Scheduled(job, job.name) for job in jobs}
        self.boot(at_once)
        self.scheduler.look()

    def after(self, seconds: float) -> list[tuple[Job, str]]:
        """Time passes, and the scheduler looks; what it has started then."""
        self.clocks.time += seconds
        self.started.clear()
        self.scheduler.look()
        return list(self.started)

    def end(self, started: tuple[Job, str], status: str = "succeeded") -> None:
        job, claim = started
        Claimed(job, claim).end(self.store, self.ledger, status, ran=True, run="r")

    def row(self, job: str) -> Row:
        found = read_row(self.store, job)
        assert found
        return found

    def outcomes(self, job: str) -> list[tuple[str, str, int]]:
        found = merged(self.ledger.slots.of(job), self.row(job).records)
        return [(record.outcome, record.reason, record.count) for record in found]


@pytest.fixture
def world(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> World:
    clocks = Clocks()
    monkeypatch.setattr(clock, "wall", clocks.wall)
    return World(sqlite_url, clocks)


def job(name: str, every: str, **options: Any) -> Job:
    return Job(name=name, target=Command(words=("true",)), schedule=(every,), tz="UTC", **options)


def hold(world: World, name: str) -> Any:
    """A lease that is held for the test's run."""
    grant = identity.new_id()
    token = world.store.acquire(name, grant, identity.holder(pid=0), 10**6).token
    return SimpleNamespace(grant=grant, token=token)
