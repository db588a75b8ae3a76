"""What a command prints: shown live, kept for each run within a size, secrets taken out."""

from __future__ import annotations

import os

from ...system.durable import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..batches.bar import Bar

CAP = 16 << 20  # bytes of one file; then it becomes `output.1`, and the one before that goes

_SHORTEST_SECRET = 8  # shorter values would take innocent words out of every line
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PRIVATE", "AUTH")
_LONGEST_LINE = 1 << 16


def secrets(environment: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """(value, what stands in its place), the longest first: one secret may begin with another."""
    found = {
        text.encode(): f"[{name}]".encode()
        for name, text in environment.items()
        if len(text) >= _SHORTEST_SECRET
        and not name.startswith("NIGHTLATCH_")
        and any(word in name.upper() for word in _SECRET_NAMES)
        and not os.path.exists(text)  # a path to a key is no key
    }
    return sorted(found.items(), key=lambda pair: -len(pair[0]))


def redacted(data: bytes, hidden: list[tuple[bytes, bytes]]) -> bytes:
    for secret, instead in hidden:
        data = data.replace(secret, instead)
    return data


class Kept:
    """The kept output of one attempt: `output` in its folder, and `output.1` before it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(private_folder(folder), "output")
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(data)
        if self._size > CAP:
            os.close(self._fd)
            os.replace(self.path, f"{self.path}.1")
            self._fd, self._size = self._open(), 0

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


class Stream:
    """One stream of the command: what is read from `source` is redacted, shown on `screen` and kept.

    With secrets to take out, a line waits until it is whole (or long): a secret may come in two reads.
    """

    def __init__(
        self, source: int, screen: int, kept: Kept, hidden: list[tuple[bytes, bytes]], bar: Bar | None = None
    ) -> None:
        self.source, self._screen, self._kept, self._hidden, self._bar = source, screen, kept, hidden, bar
        self._line = b""
        self.tail = b""  # the last of it, for whoever reads usage out of a final JSON

    @property
    def unfinished(self) -> bool:
        """Is there a line that waits for its end?"""
        return bool(self._line)

    def pump(self) -> bool:
        """Read what there is; False at the end."""
        data = os.read(self.source, _LONGEST_LINE)
        if not data:
            self.flush()
            return False
        self.tail = (self.tail + data)[-_LONGEST_LINE * 4 :]
        if not self._hidden:
            self._emit(data)
            return True
        lines = self._line + data
        whole = len(lines) if len(lines) > _LONGEST_LINE else lines.rfind(b"\n") + 1
        self._line = lines[whole:]
        self._emit(redacted(lines[:whole], self._hidden))
        return True

    def flush(self) -> None:
        """Nothing came for a while: show an unfinished line too, as a prompt is one."""
        line, self._line = self._line, b""
        self._emit(redacted(line, self._hidden))

    def _emit(self, data: bytes) -> None:
        if not data:
            return
        self._kept.write(data)
        if self._bar:
            self._bar.clear()
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._screen, view) :]
        except OSError:
            self._screen = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # nobody looks any more; the run goes on
        if self._bar and data.endswith(b"\n"):
            self._bar.draw()
