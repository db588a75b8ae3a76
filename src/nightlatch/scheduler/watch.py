"""How long each claim has been unchanged, by a clock that cannot be set.

This is kept on disk, so that two firings of a cron line are enough to take over a claim that nobody began, and so that
a restarted daemon continues to watch.
"""

from __future__ import annotations

import json
import os

from ..core.row import Claim
from ..system import durable, identity
from .clocks import Clocks

_FILE = "claims.json"
_WRITE_EVERY = 10.0  # seconds at least between two writes; after a crash claims are watched that much longer


class Watch:
    def __init__(self, folder: str, clocks: Clocks) -> None:
        """`folder`: the store's, on this machine; "": nothing is kept."""
        self._path = folder and os.path.join(folder, _FILE)
        self._clocks = clocks
        self._here = f"{identity.boot()} {identity.time_namespace()}"
        self._since: dict[str, tuple[list[object], float]] = self._read()  # job → its claim's state, and since when
        self._written: float | None = None  # when the file was last written
        self._changed = False

    def unchanged(self, job: str, claim: Claim | None) -> float:
        """Seconds for which this machine has seen the claim unchanged; 0.0 if it is not open."""
        if claim is None or not claim.is_open:
            self._changed |= self._since.pop(job, None) is not None
            return 0.0
        before = self._since.get(job)
        if before is None or before[0] != _state(claim):
            self.begin(job, claim)
            return 0.0
        return self._clocks.now() - before[1]

    def begin(self, job: str, claim: Claim) -> None:
        """Watch the claim, as it is, from now on."""
        self._since[job] = _state(claim), self._clocks.now()
        self._changed = True

    def keep(self) -> None:
        """Write to the disk if something has changed, at most every `_WRITE_EVERY` seconds."""
        now = self._clocks.now()
        if not self._path or not self._changed or (self._written is not None and now - self._written < _WRITE_EVERY):
            return
        self._written = now
        try:
            durable.private_folder(os.path.dirname(self._path))
            durable.replace(self._path, json.dumps({"here": self._here, "seen": self._since}).encode())
            self._changed = False
        except OSError:
            pass  # a full disk: the next look tries again

    def _read(self) -> dict[str, tuple[list[object], float]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
            if found["here"] != self._here:  # times of another boot cannot be compared
                return {}
            now = self._clocks.now()
            return {job: (state, min(float(since), now)) for job, (state, since) in found["seen"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _state(claim: Claim) -> list[object]:
    return [claim.id, claim.grant, claim.again_at]
