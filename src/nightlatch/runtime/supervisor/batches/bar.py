"""A batch's progress bar: one line that is redrawn, on a terminal only."""

from __future__ import annotations

import os

from ....core import duration
from ....system import clock

_DRAW_EVERY = 0.1  # seconds between two drawings
_SCREEN = 2  # standard error


class Bar:
    """Drawn by the supervisor on its own standard error, so that it is not in the kept output."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = self._drawn_at = clock.now()
        self._shown = self._closed = False
        self.done = self.failed = self.doubt = self.skipped = self.total = self.waiting = 0

    def update(self, *, skipped: int, total: int, done: int = 0, failed: int = 0, doubt: int = 0) -> None:
        self.done, self.failed, self.doubt, self.skipped, self.total = done, failed, doubt, skipped, total
        if clock.now() >= self._drawn_at + _DRAW_EVERY:
            self.draw()

    def wait(self, waiting: int) -> None:
        """Show how many items wait for a probe."""
        self.waiting = waiting
        self.draw()

    def text(self, width: int) -> str:
        finished, tried = self.done + self.skipped, self.done + self.failed + self.doubt
        total = max(self.total, finished + self.failed + self.doubt)
        elapsed = clock.now() - self._started
        parts = [f"{self._name} {finished}/{total} {finished * 100 // max(total, 1)}%"]
        others = ((self.failed, "failed"), (self.doubt, "in doubt"), (self.waiting, "waiting for a probe"))
        parts += [f"{count} {what}" for count, what in others if count]
        if tried and elapsed > 0:
            rate, left = tried / elapsed, total - self.skipped - tried
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
            parts += [f"{duration.show(max(left / rate, 1))} left"] if left else []
        return ", ".join(parts)[:width]

    def draw(self) -> None:
        if self._closed:
            return
        self._drawn_at = clock.now()
        try:
            width = os.get_terminal_size(_SCREEN).columns or 80
        except OSError:
            width = 80
        self._write(f"\r\x1b[K{self.text(max(width - 1, 10))}")
        self._shown = True

    def close(self) -> None:
        """The batch has ended: remove the bar; the summary follows."""
        self.clear()
        self._closed = True

    def clear(self) -> None:
        """Remove the bar before other output."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        try:
            os.write(_SCREEN, text.encode(errors="replace"))
        except OSError:
            pass  # the terminal is gone


def is_wanted() -> bool:
    return os.isatty(_SCREEN) and os.environ.get("TERM", "") != "dumb"
