"""What the user's code sees of the run it works in: `nightlatch.current()`."""

from __future__ import annotations

import os

from ..errors import UsageError
from .tell import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Logger
    from pathlib import Path

_current: Run | None = None


class Run:
    """The run this process was started in. Words go to its supervisor, who has the lease and writes the record.

    What is said here is recorded when the call returns. Everything raises `UsageError` outside of a run,
    and `check` raises `LeaseLost`, which no `except Exception` swallows, when the lease is gone.
    """

    def __init__(self) -> None:
        def text(name: str) -> str:
            return os.environ.get(f"NIGHTLATCH_{name}", "")

        if not text("RUN") or not text("SOCKET"):
            raise UsageError(
                "there is no run here: start it with `nightlatch run NAME -- CMD …`, or call .run() of a job"
            )
        self.run, self.job, self.key, self.slot = text("RUN"), text("JOB"), text("KEY"), text("SLOT")
        self.attempt, self.token = int(text("ATTEMPT")), int(text("TOKEN"))

    @property
    def workspace(self) -> Path:
        """The attempt's own folder."""
        from pathlib import Path

        place = os.environ.get("NIGHTLATCH_WORKSPACE")
        if not place:
            raise UsageError("this run has no workspace: ask for one with workspace='scratch' or --workspace scratch")
        return Path(place)

    @property
    def log(self) -> Logger:
        """A logger whose lines go to standard error, which is shown, and kept with the run."""
        import logging

        logger = logging.getLogger(f"nightlatch.run.{self.job}")
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return logger

    def progress(self, done: int, total: int = 0, message: str = "") -> None:
        """How far it is; a total of 0 is unknown. What advances is not stalled."""
        tell(do="progress", done=done, total=total, message=message)

    def spend(self, **amounts: float) -> dict[str, float]:
        """Something was used: usd, tokens, calls, units. Returns what this run has used; beyond its budget it is
        ended from outside."""
        return dict(tell(do="spend", **amounts)["used"])

    def check(self) -> None:
        """Return while the lease is surely held; raise `LeaseLost` otherwise. Before a step that must not happen
        twice; between the check and the step only a gate can tell."""
        tell(do="check")

    def __repr__(self) -> str:
        return f"<Run {self.run} of {self.job}, key {self.key}, attempt {self.attempt}, token {self.token}>"


def current() -> Run:
    """The run this process works in. Raises `UsageError` if there is none."""
    global _current  # noqa: PLW0603 - a process is started in one run, and stays in it
    if _current is None or _current.run != os.environ.get("NIGHTLATCH_RUN"):
        _current = Run()
    return _current
