"""A scheduler on a store, in a process: `python -m tests.support.scheduling.daemon STORE JOBS`.

JOBS is JSON: name → {schedule, command, …options}. For tests that need many daemons, or none of nightlatch.toml.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from nightlatch.core.job import Job
from nightlatch.core.target import Command
from nightlatch.scheduler.serve import Server


class Given:
    """What a file would say."""

    changed = False
    at_once = 8

    def __init__(self, jobs: dict[str, dict[str, Any]]) -> None:
        self.at_once = jobs.pop("at_once", 8)  # type: ignore[assignment]
        self.jobs = {name: job(name, **options) for name, options in jobs.items()}


def job(name: str, *, command: list[str], schedule: str, **options: Any) -> Job:
    given: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return Job(name=name, target=Command(words=tuple(command)), schedule=(schedule,), tz="UTC", **given)


def server(store: str, jobs: dict[str, dict[str, Any]]) -> Server:
    return Server(
        lambda: Given(dict(jobs)), store, lambda text: print(f"nightlatch: {text}", file=sys.stderr, flush=True)
    )


if __name__ == "__main__":
    sys.exit(server(sys.argv[1], json.loads(sys.argv[2])).serve())
