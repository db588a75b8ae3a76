"""The time until a probe is believed: spent looking now and then, and over at once for who does not want to wait."""

from __future__ import annotations

import os

from ....errors import Error
from ....system import clock
from ....system.light import signal
from ..supervision import ENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Interruptible:
    """While it lasts, every signal that asks us to end raises KeyboardInterrupt, the first time.

    Between `deafen` and `hear` it is only remembered: who starts a process must get to know its pid.
    """

    def __init__(self) -> None:
        self._postponed = self._interrupted = False

    def postpone(self) -> None:
        self._postponed = True

    def resume(self) -> None:
        self._postponed = False
        if self._interrupted:
            raise KeyboardInterrupt

    def __enter__(self) -> Interruptible:
        handled = (signum for signum in ENDING if signal.getsignal(signum) != signal.SIG_IGN)  # nohup's wish
        self._before: dict[int, Any] = {signum: signal.signal(signum, self._interrupt) for signum in handled}
        return self

    def _interrupt(self, *_: object) -> None:
        for signum in self._before:
            signal.signal(signum, signal.SIG_IGN)
        self._interrupted = True
        if not self._postponed:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before)


def rest(seconds: float) -> None:
    """Pause. A run around us hears that this is no stall."""
    until = clock.now() + seconds
    while (left := until - clock.now()) > 0:
        if "NIGHTLATCH_SOCKET" in os.environ:
            from ...shared.client import send

            try:
                send(do="moved", waits=True)
            except Error:
                pass  # it says the same to whoever tells it more than that
        clock.sleep(left)
