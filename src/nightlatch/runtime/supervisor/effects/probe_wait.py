"""Waiting until a probe's answer is final; a signal ends the wait at once."""

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
    """Inside the block, the first signal that asks us to end raises KeyboardInterrupt.

    Between `postpone` and `resume` the signal is only remembered: a probe that is being started could not be ended yet.
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
        handled = (signum for signum in ENDING if signal.getsignal(signum) != signal.SIG_IGN)  # not under nohup
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


def pause_without_stall(seconds: float) -> None:
    """Pause. If this is inside a run, report to it that this is not a stall."""
    until = clock.now() + seconds
    while (left := until - clock.now()) > 0:
        if "NIGHTLATCH_SOCKET" in os.environ:
            from ...shared.client import send

            try:
                send(do="moved", waits=True)
            except Error:
                pass  # a later request meets the same error
        clock.sleep(left)
