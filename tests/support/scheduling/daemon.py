"""A scheduler on a store, in a process: `python -m tests.support.scheduling.daemon STORE JOBS`.

JOBS is JSON: name → {schedule, command, …options}. For tests that need many daemons, or none of nightlatch.toml. In its
environment: PATIENCE, seconds until a claim that nobody begins is taken over, and a look every second besides; and
FREEZE=1, to be stopped between its first claim and the start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from nightlatch.core import slots
from nightlatch.core.job import Job
from nightlatch.core.row import Claim
from nightlatch.core.target import Command
from nightlatch.scheduler import scheduler
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.scheduler.serve import Server
from nightlatch.scheduler.starter import Starter


class Given:
    """What a file would say."""

    changed = False
    path = ""
    at_once = 8

    def __init__(self, jobs: dict[str, dict[str, Any]]) -> None:
        self.at_once = jobs.pop("at_once", 8)  # type: ignore[assignment]
        self.jobs = {name: job(name, **options) for name, options in jobs.items()}


def job(name: str, *, command: list[str], schedule: str, **options: Any) -> Job:
    given: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return Job(name=name, target=Command(words=tuple(command)), schedule=(schedule,), tz="UTC", **given)


def impatient(seconds: float) -> None:
    slots.UNBEGUN = slots.UNBEGUN_WATCHED = seconds
    scheduler.POLL_CLAIMED = scheduler.POLL_IDLE = 1.0


def freezing(self: Starter, scheduled: Scheduled, claim: Claim) -> None:
    Starter.start = _start  # type: ignore[method-assign]
    os.kill(os.getpid(), signal.SIGSTOP)
    _start(self, scheduled, claim)


_start = Starter.start


def server(store: str, jobs: dict[str, dict[str, Any]]) -> Server:
    def load() -> Any:
        return Given(dict(jobs))

    return Server(load, store, lambda text: print(f"nightlatch: {text}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    if "PATIENCE" in os.environ:
        impatient(float(os.environ["PATIENCE"]))
    if "FREEZE" in os.environ:
        Starter.start = freezing  # type: ignore[method-assign]
    sys.exit(server(sys.argv[1], json.loads(sys.argv[2])).serve())
