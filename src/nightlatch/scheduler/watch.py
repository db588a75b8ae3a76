"""For how long claims have been as they are, by a clock that nobody sets.

Kept on disk, so that two firings of a cron line are enough to take over what nobody began, and a daemon that is started
again goes on watching.
"""

from __future__ import annotations

import json
import os

from ..system import durable, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.row import Claim
    from .clocks import Clocks

_FILE = "claims.json"
_OFTEN = 10.0  # seconds between two writes by one process: what is lost with it is watched that much longer


class Watch:
    def __init__(self, folder: str, clocks: Clocks) -> None:
        """`folder`: of the store on this machine; "": nothing is kept."""
        self._path = folder and os.path.join(folder, _FILE)
        self._clocks = clocks
        self._here = f"{identity.boot()} {identity.time_namespace()}"
        self._seen: dict[str, tuple[list[object], float]] = self._read()  # job → its claim, and since when it is so
        self._kept: float | None = None  # when it was written last
        self._changed = False

    def unchanged(self, job: str, claim: Claim | None) -> float:
        """Seconds for which this machine has seen the claim as it is."""
        if claim is None or not claim.is_open:
            self._changed |= self._seen.pop(job, None) is not None
            return 0.0
        before = self._seen.get(job)
        if before is None or before[0] != _state(claim):
            self.see(job, claim)
            return 0.0
        return self._clocks.now() - before[1]

    def see(self, job: str, claim: Claim) -> None:
        """From now on it is so."""
        self._seen[job] = _state(claim), self._clocks.now()
        self._changed = True

    def keep(self) -> None:
        """Write it down, if that is worth it."""
        now = self._clocks.now()
        if not self._path or not self._changed or (self._kept is not None and now - self._kept < _OFTEN):
            return
        durable.private_folder(os.path.dirname(self._path))
        durable.replace(self._path, json.dumps({"here": self._here, "seen": self._seen}).encode())
        self._kept, self._changed = now, False

    def _read(self) -> dict[str, tuple[list[object], float]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
            if found["here"] != self._here:  # a clock of another boot cannot be compared
                return {}
            now = self._clocks.now()
            return {job: (state, min(float(since), now)) for job, (state, since) in found["seen"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _state(claim: Claim) -> list[object]:
    return [claim.id, claim.grant, claim.again_at]
