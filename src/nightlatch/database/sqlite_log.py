"""SQLite's write-ahead log, flushed by the process that committed, after the next writer was let in.

So the flushes of many processes overlap. A flush makes everything durable that was committed to the log before, in the
order of the commits. What a checkpoint has moved into the database meanwhile was flushed by the checkpoint.
"""

from __future__ import annotations

import os

from ..system import durable


class Log:
    """The log of one database. After a failed flush every use raises: nobody knows what is on the disk."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-wal"
        self._file = -1
        self._failed: OSError | None = None
        self.needs_flush = False  # something may be committed and not flushed

    def flush(self) -> None:
        """Everything committed is on the disk when this returns."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            durable.flush(self._file)
        except OSError as error:
            self._failed = error
            raise
        self.needs_flush = False

    def catch_up(self) -> None:
        """Flush what an interrupted call committed and did not flush: what is read from now on is on the disk."""
        if self._failed:
            raise self._failed
        if self.needs_flush:
            self.flush()

    def close(self) -> None:
        """Close the log's file. The next flush opens it again, since by then there may be another file at its path."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
