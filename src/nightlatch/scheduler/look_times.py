"""When each job is worth a look again; the next such time is found without going through all jobs."""

from __future__ import annotations

import heapq
import math


class LookTimes:
    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # also outdated times, which `next` drops

    def set(self, job: str, at: float) -> None:
        if self._at.get(job) != at:
            self._at[job] = at
            heapq.heappush(self._heap, (at, job))

    def of(self, job: str) -> float | None:
        return self._at.get(job)

    def next(self, now: float) -> float:
        """The first time after `now`; inf if there is none. What is not later was looked at now: `set` it again."""
        while self._heap:
            at, job = self._heap[0]
            if at > now and self._at.get(job) == at:
                return at
            heapq.heappop(self._heap)
            if self._at.get(job) == at:
                del self._at[job]
        return math.inf
