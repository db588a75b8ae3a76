"""Waiting for a lease on a store that does not notify of releases: try again, at growing intervals."""

from __future__ import annotations

from ..system import clock


class PollingWaiter:
    """Pauses that grow from `first` to `every` seconds: a short wait ends soon, a long one costs little."""

    def __init__(self, every: float, first: float = 0.001) -> None:
        self._pause, self._every = first, every

    def wait(self, seconds: float) -> None:
        clock.sleep(min(self._pause, seconds))
        self._pause = min(self._pause * 1.5, self._every)

    def close(self) -> None:
        pass
