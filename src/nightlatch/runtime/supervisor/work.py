"""The seam for work: what a supervisor starts, keeps in bounds, and ends. Imported for its type only.

Today all work is a command (command.py). A managed agent, which works at a vendor, fits this seam too: its driver is a
command, `reattach` finds the agent that an earlier attempt left at work, `used` is what the vendor counted, and `end`
makes sure that the vendor has ended the agent as well.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...core.tenure import Tenure
from ...system.lifetime import Lifetime
from ...system.warden_messages import Report


class Work(Protocol):
    name: str  # for messages

    def prepare(self, grant: str, lifetime: Lifetime | None) -> None:
        """Called before this process has its first thread or connection. Nothing is started yet."""

    def reattach(self) -> bool:
        """Take over work that an earlier attempt left running; True if there is any, and then `start` is not called."""

    def start(self, environment: dict[str, str], *, cwd: str, grace: float, limit: float | None) -> None:
        """`limit`: when the work must have ended, by the suspend-proof clock, even if this supervisor hangs. `grace`:
        seconds between SIGTERM and SIGKILL."""

    @property
    def descriptors(self) -> Collection[int]:
        """Readable when there is a report."""

    def report(self, seconds: float = 0.0) -> Report | None:
        """The next report; None if there is none within `seconds`. Call it at least once a second."""

    def keep(self, tenure: Tenure) -> None:
        """The lease was renewed, for `tenure`: the work must have ended when that is over."""

    def pass_on(self, signum: int) -> None:
        """Pass on a signal that is meant for the work."""

    def ask_to_end(self, why: str, grace: float, signum: int) -> None:
        """Callable from any thread or signal handler. `report` says when the work has ended."""

    def used(self, printed: bytes) -> dict[str, float]:
        """Usage that the work did not report through the socket; called once, when it has ended. `printed`: the end of
        its standard output."""

    def end(self) -> None:
        """End the work at once, whatever its state. Nothing of it is running when this returns."""

    def close(self) -> None:
        """The work has ended: close the descriptors that controlled it."""
