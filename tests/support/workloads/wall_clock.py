"""A wall clock that can be stepped while programs read it; the clocks that count from boot are left alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

from tests.support.programs import faketime


class WallClock:
    """`environment` is for the programs that are to read it. They notice a step within a second."""

    def __init__(self, folder: Path) -> None:
        self._offset = 0
        self._file = folder / "wall-clock"
        self._write()
        library = faketime("+0")
        del library["FAKETIME"]
        self.environment = {**library, "FAKETIME_TIMESTAMP_FILE": str(self._file), "FAKETIME_CACHE_DURATION": "1"}
        # Every program that finds none makes a shared memory of its own, and one that is killed leaves it behind.
        # So there is one for all, made by a process that lives as long as this, and removed here.
        self._keeper = subprocess.Popen(
            ["sh", "-c", 'echo "$FAKETIME_SHARED"; read end'],
            env={**os.environ, **self.environment}, stdin=-1, stdout=-1, text=True,
        )  # fmt: skip
        assert self._keeper.stdout
        if shared := self._keeper.stdout.readline().strip():
            self.environment["FAKETIME_SHARED"] = shared

    def __enter__(self) -> WallClock:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._keeper.communicate("\n")
        if shared := self.environment.get("FAKETIME_SHARED"):
            semaphore, memory = shared.split()
            for path in (f"/dev/shm/sem.{semaphore[1:]}", f"/dev/shm/{memory[1:]}"):
                Path(path).unlink(missing_ok=True)

    def set(self, offset: int) -> bool:
        """So many seconds ahead of the machine's, or behind; False if it is there already."""
        if offset == self._offset:
            return False
        self._offset = offset
        self._write()
        return True

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{self._offset:+d}\n")
        os.replace(new, self._file)
