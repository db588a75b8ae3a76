"""The jobs' files of the simulator: what each machine has, and what people make of it. A commit of one machine reaches
the others when they pull."""

from __future__ import annotations

import random
from typing import Any

from nightlatch.core.job import Job
from nightlatch.core.target import Command
from nightlatch.scheduler.scheduled import Scheduled

# By job: the minutes of its schedules, the first one at the beginning; and its options.
JOBS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "often": ((20, 30), {"retries": 1, "backoff": 60.0, "lost": "again"}),
    "queued": ((45, 50), {"overlap": "queue", "lost": "doubt"}),
    "replaced": ((60, 90), {"overlap": "cancel", "lost": "again"}),
    "punctual": ((120, 100), {"catch_up": "none", "late": 1800.0, "lost": "again"}),
}


class Files:
    """The history of all jobs' files: a commit is a definition and the minutes of its schedule."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._commits = {job: [(f"{job} 0", minutes[0])] for job, (minutes, _) in JOBS.items()}
        self._known: dict[tuple[str, str], Scheduled] = {}

    def first(self) -> dict[str, int]:
        """A machine's file at the beginning: job → its commit."""
        return dict.fromkeys(JOBS, 0)

    def newest(self) -> dict[str, int]:
        return {job: len(commits) - 1 for job, commits in self._commits.items()}

    def definition(self, job: str) -> tuple[str, int]:
        """The newest one, and its minutes."""
        return self._commits[job][-1]

    def edit(self, job: str) -> None:
        """A commit on top of the newest: another command or schedule, or one that was before."""
        commits = self._commits[job]
        new = (f"{job} {len(commits)}", self._chance.choice(JOBS[job][0]))
        commits.append(self._chance.choice(commits) if self._chance.random() < 0.3 else new)

    def jobs(self, file: dict[str, int]) -> dict[str, Scheduled]:
        return {job: self._scheduled(job, *self._commits[job][commit]) for job, commit in file.items()}

    def _scheduled(self, name: str, definition: str, minutes: int) -> Scheduled:
        known = self._known.get((name, definition))
        if known is None:
            target, schedule = Command(words=("true",)), (f"every {minutes}m",)
            job = Job(name=name, target=target, tz="UTC", schedule=schedule, **JOBS[name][1])
            known = self._known[name, definition] = Scheduled(job, definition)
        return known
