"""The seam for work: what a supervisor starts, keeps in bounds, and ends. Imported for its type only.

Today that is a command (command.py). A managed agent, whose work goes on at a vendor, can be one too: its driver is a
command, `reattach` finds what an earlier attempt left at work there, `used` is what the vendor counted, and `end` sees
to it that the vendor has ended it as well.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...core.tenure import Tenure
from ...system.lifetime import Lifetime
from ...system.reports import Report


class Work(Protocol):
    name: str  # for people

    def prepare(self, grant: str, lifetime: Lifetime | None) -> None:
        """What has to be done before this process has its first thread or connection. Nothing is started yet."""

    def reattach(self) -> bool:
        """Does work of an earlier attempt go on, which is this one's from now on? Then nothing is started."""

    def start(self, environment: dict[str, str], *, cwd: str, grace: float, limit: float | None) -> None:
        """`limit`: when it has to be over, by the suspend-proof clock, even if this supervisor hangs. `grace`: seconds
        between asking it to end and ending it."""

    @property
    def descriptors(self) -> Collection[int]:
        """Readable when there is a report."""

    def report(self, seconds: float = 0.0) -> Report | None:
        """The next report; None if there is none within `seconds`. To be asked for once a second, or more often."""

    def keep(self, tenure: Tenure) -> None:
        """The lease was renewed: how long it is sure. Work that cannot be ended by then must not go on."""

    def pass_on(self, signum: int) -> None:
        """A signal that means the work, whatever it does with it."""

    def ask_to_end(self, why: str, grace: float, signum: int) -> None:
        """From any thread and any signal handler. That it has ended, `report` says."""

    def used(self, printed: bytes) -> dict[str, float]:
        """What it has used without reporting that through the socket; asked for once, at its end. `printed`: the last
        of its standard output."""

    def end(self) -> None:
        """At once, whatever state it is in. Nothing of it is at work when this returns."""

    def close(self) -> None:
        """It has ended, and nobody is left who could tell it anything."""
