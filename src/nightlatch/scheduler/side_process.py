"""Processes beside the scheduler: pages, alerts, traces. No slot waits for them; one that dies is started again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from ..config import place
from ..errors import BadConfig
from ..store import url
from ..system import clock

_PAUSE = 1.0  # seconds between a death and the next start; doubled if the life before it was shorter than `_MOMENT`
_LONGEST = 3600.0  # seconds that such a pause lasts at most
_MOMENT = 60.0  # seconds


class SideProcess:
    """A nightlatch process that ends with this one, even after SIGKILL: its standard input is a pipe that only we hold.

    `wanted` is called at the start, and again whenever nightlatch.toml has changed.
    """

    def __init__(self, store: str | None, *words: str, wanted: Callable[[], object] = lambda: True) -> None:
        self._words, self._wanted = words, wanted
        self._env = {**os.environ, url.ENV: store} if store else None  # not as an argument: the URL may hold a password
        self._process: subprocess.Popen[bytes] | None = None
        self._started, self._pause, self._restart_at = 0.0, _PAUSE, 0.0

    def start_if_wanted(self) -> None:
        """Start the process if it is wanted and was never started."""
        try:
            if self._process is None and self._wanted():
                self._start()
        except BadConfig:
            pass  # the scheduler reports the error; the previous version of nightlatch.toml stays in force

    def restart_if_dead(self, say: Callable[[str], None]) -> None:
        """Start the process again, after a pause, if it has died."""
        if self._process is None or (code := self._process.poll()) is None:
            return
        if not self._restart_at:
            self._pause = _PAUSE if clock.now() - self._started > _MOMENT else min(self._pause * 2, _LONGEST)
            self._restart_at = clock.now() + self._pause
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            say(f"`nightlatch {' '.join(self._words)}` {how}; it is started again in {self._pause:.0f} s")
        elif clock.now() >= self._restart_at:
            try:
                self._start()
            except BadConfig:
                pass  # as above; the next look tries again

    def close(self) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.close()

    def _start(self) -> None:
        self.close()
        command = [sys.executable, "-m", "nightlatch", *self._words, "--config", place.find()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=self._env)
        self._started, self._restart_at = clock.now(), 0.0
