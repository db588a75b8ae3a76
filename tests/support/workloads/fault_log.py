"""What a nemesis did, in a file that is looked at when something broke."""

from __future__ import annotations

from pathlib import Path

from nightlatch.system import clock


class FaultLog:
    """One line a fault, with the seconds since boot, which the workers' logs have too."""

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / "faults", "a", buffering=1)  # noqa: SIM115 - as long as the nemesis

    def note(self, kind: str, *words: object) -> None:
        self._file.write(f"{clock.now():.3f} {kind} {' '.join(map(str, words))}\n")
