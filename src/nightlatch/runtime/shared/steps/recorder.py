"""A run's steps: reads those of earlier attempts, and records new ones."""

from __future__ import annotations

import os

from ....core.effects import BEGUN, DONE
from ....core.statuses import LOST
from ....ledger import step_log
from ....system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.nested import NestedRun
    from ....ledger.step_log import Step, StepWriter

_COUNT_EVERY = 1.0  # seconds between two records of how far a `run.map` has got


class Recorder:
    """For one run or nested run. `progress` is called with how far a `run.map` has got."""

    def __init__(
        self,
        ledger: Ledger,
        steps: StepWriter | NestedRun,
        folder: str,
        redacted: Callable[[str], str],
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._ledger, self._steps, self._folder, self._redacted = ledger, steps, folder, redacted
        self._progress, self._counted_at = progress, 0.0
        self._files = 0

    def known(self) -> dict[str, Any]:
        """The path of a file with the steps of earlier attempts, one per line; "" if there are none.

        Not sent through the socket: there may be many, and a child that stops reading must not block us.
        """
        run = self._steps.run
        if run.attempt <= 1:
            return {"path": ""}
        lost = {one.attempt for one in self._ledger.attempts(run.id) if one.status == LOST}
        facts: dict[str, str] = {}
        for digest, status, tries, attempt, result in self._ledger.step_log.facts(self._steps.chain):
            if not facts.get(digest, "").startswith(DONE):  # what is done stays done, whatever was recorded later
                # A try in a lost attempt does not count: the supervisor died too, so the step did not cause the end.
                facts[digest] = f"{status} {tries - (status == BEGUN and attempt in lost)} {result}"
        if not facts:
            return {"path": ""}
        self._files += 1  # each request gets its own file, which the child removes
        path = os.path.join(self._folder, f"steps-{run.id}-{self._files}")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            file.writelines(f"{digest} {what}\n" for digest, what in facts.items())
        return {"path": path}

    def write(self, requests: Sequence[dict[str, Any]]) -> None:
        """Record the steps of several requests in one commit."""
        self._steps.append(self.steps(requests))
        self._report_progress(requests)

    def steps(self, requests: Sequence[dict[str, Any]]) -> list[Step]:
        return [self._step(*step) for request in requests for step in request["steps"]]

    def _step(self, digest: str, key: str, status: str, tries: int, result: str, reason: str) -> Step:
        return step_log.step(digest, key, status, tries, result, self._redacted(str(reason)) if reason else "")

    def _report_progress(self, requests: Sequence[dict[str, Any]]) -> None:
        """Report how far a `run.map` has got, at most once a second."""
        newest = next((request for request in reversed(requests) if request.get("of")), None)
        now = clock.now()
        if newest and self._progress and (now - self._counted_at > _COUNT_EVERY or newest.get("last")):
            self._counted_at = now
            self._progress(int(newest["done"]), int(newest["of"]), str(newest.get("message") or ""))
