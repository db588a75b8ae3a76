"""SQLite's write-ahead log, flushed by whoever has committed to it, when the next writer is already let in.

So the flushes of many processes overlap. Flushing the log makes all durable that was committed to it before, in the
order of the commits; what a checkpoint has taken out of it meanwhile it has flushed itself.
"""

from __future__ import annotations

import os

from ..system import durable


class Log:
    """Of one database. A log that could not be flushed is not trusted again."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-wal"
        self._file = -1
        self._failed: OSError | None = None
        self.behind = False  # something may be committed and not flushed

    def flush(self) -> None:
        """What was committed is on the disk when this returns."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            durable.flush(self._file)
        except OSError as error:
            self._failed = error
            raise
        self.behind = False

    def catch_up(self) -> None:
        """For whoever was interrupted between commit and flush: what is seen from now on is on the disk."""
        if self._failed:
            raise self._failed
        if self.behind:
            self.flush()

    def close(self) -> None:
        """The next connection opens it again: by then it may be another file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
