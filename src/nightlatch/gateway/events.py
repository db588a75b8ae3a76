"""Replies as they pass: server-sent events or one JSON text. Usage is read from them, and the bytes go on unchanged."""

from __future__ import annotations

from .dialects import Dialect
from .json_text import parsed
from .requested import ReplyUsage

_USAGE = b'"usage'  # most events have none; in generated text the quote would be escaped, so a match is a real field
_LONGEST = 64 << 20  # bytes of one event, or of a reply, that are kept to be read


class Events:
    """Reads the usage in a stream. `feed` returns what goes on to the client; with `drop_ours`, without the usage event
    that only the gateway asked for."""

    def __init__(self, dialect: Dialect, usage: ReplyUsage, *, drop_ours: bool) -> None:
        self._dialect, self._usage, self._drop = dialect, usage, drop_ours
        self._rest = b""
        self._skipping = False  # inside a line that is too long to be kept

    def feed(self, chunk: bytes) -> bytes:
        if self._drop:
            return self._feed_events(chunk)
        lines, end, self._rest = (self._rest + chunk).rpartition(b"\n")
        if end:
            if self._skipping:
                self._skipping, lines = False, lines.partition(b"\n")[2]
            if _USAGE in lines:
                for line in lines.split(b"\n"):
                    self._look(line)
        if len(self._rest) > _LONGEST:
            self._rest, self._skipping = b"", True
        elif self._skipping:
            self._rest = b""
        return chunk

    def _feed_events(self, chunk: bytes) -> bytes:
        """Pass on event by event, without the one that only the gateway asked for."""
        self._rest += chunk
        passed = []
        while (end := self._first_end()) > 0:
            event, self._rest = self._rest[:end], self._rest[end:]
            if not any([self._look(line) for line in event.split(b"\n")]):
                passed.append(event)
        return b"".join(passed)

    def _first_end(self) -> int:
        """Where the first event ends; 0: it is not complete yet."""
        ends = [self._rest.find(mark) + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if mark in self._rest]
        return min(ends, default=0)

    def finish(self) -> bytes:
        """The stream has ended: read the rest; returns what of it goes on to the client."""
        rest, self._rest = self._rest, b""
        if rest:
            self._look(rest)
        return rest if self._drop else b""

    def _look(self, line: bytes) -> bool:
        """Read the usage in a line. True: it is of the event that only the gateway asked for."""
        if _USAGE not in line or not line.startswith(b"data:"):
            return False
        data = parsed(line[5:].strip())
        if not isinstance(data, dict):
            return False
        self._dialect.read_usage(data, self._usage)
        return self._drop and self._dialect.is_ours(data)


class WholeReply:
    """A reply that is one JSON text: kept as it passes, read at its end."""

    def __init__(self, dialect: Dialect, usage: ReplyUsage) -> None:
        self._dialect, self._usage = dialect, usage
        self._kept: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        if self._size <= _LONGEST:
            self._kept.append(chunk)
        else:
            self._kept.clear()
        return chunk

    def finish(self) -> bytes:
        found = parsed(b"".join(self._kept))
        for data in found if isinstance(found, list) else [found]:  # Gemini streams a list where SSE is not asked for
            if isinstance(data, dict):
                self._dialect.read_usage(data, self._usage)
        return b""
