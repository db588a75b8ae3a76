"""What a command prints: shown live, kept for each run within a size, secrets taken out."""

from __future__ import annotations

import os
import sys

from ...system.durable import private_folder
from ..talk.socket import has_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..batches.bar import Bar

CAP = 16 << 20  # bytes of one file; then it becomes `output.1`, and the one before that goes

_SHORTEST_SECRET = 8  # shorter values would take innocent words out of every line
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PRIVATE", "AUTH")
_CHUNK = 1 << 16
_ROOM = 4096  # bytes that a pipe which has room takes at once


def secrets(environment: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """(value, what stands in its place), the longest first: one secret may begin with another."""
    found = {
        os.fsencode(text): f"[{name}]".encode(errors="replace")
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


def _beginning(data: bytes, hidden: list[tuple[bytes, bytes]]) -> int:
    """Where in `data` a secret begins that may be whole only with what comes next; its length if none does."""
    at = len(data)
    for secret, _ in hidden:
        start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
        while 0 <= start < at:
            if secret.startswith(data[start:]):
                at = start
            start = data.find(secret[:1], start + 1)
    return at


class Kept:
    """The kept output of one attempt: `output` in its folder, and `output.1` before it. What cannot be kept, since the
    disk is full, is shown all the same."""

    _complained = False

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(private_folder(folder), "output")
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            if not self._complained:
                self._complained = True
                print(f"nightlatch: not all of the output can be kept: {error.strerror}", file=sys.stderr)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(data)
        if self._size > CAP:
            os.replace(self.path, f"{self.path}.1")
            full, self._fd, self._size = self._fd, self._open(), 0
            os.close(full)

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _own(screen: int) -> int:
    """A terminal is opened anew: it may have room and still make a writer wait, unless that has said that it will not;
    and said of the one we were given, it would hold for everybody who has it."""
    try:
        return os.open(os.ttyname(screen), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return screen


class Stream:
    """One stream of the command: what is read from `source` is redacted, shown on `screen` and kept.

    What may be the beginning of a secret waits for what comes next: a secret may come in two reads.
    """

    def __init__(
        self, source: int, screen: int, kept: Kept, hidden: list[tuple[bytes, bytes]], bar: Bar | None = None
    ) -> None:
        self.source, self.screen, self._kept, self._hidden, self._bar = source, _own(screen), kept, hidden, bar
        self._held = b""
        self._unshown = memoryview(b"")
        self.tail = b""  # the last of it, for whoever reads usage out of a final JSON

    def pump(self) -> bool:
        """Read what there is; False at the end."""
        data = os.read(self.source, _CHUNK)
        self.tail = (self.tail + data)[-_CHUNK * 4 :]
        seen = self._held + data
        at = _beginning(seen, self._hidden) if data else len(seen)
        shown, held = redacted(seen[:at], self._hidden), seen[at:]
        if held and shown + redacted(held, self._hidden) != (whole := redacted(seen, self._hidden)):
            shown, held = whole, b""  # it is the end of another one, which is whole
        self._held = held
        self._emit(shown)
        return bool(data)

    def _emit(self, data: bytes) -> None:
        if not data:
            return
        self._kept.write(data)
        self._unshown = memoryview(bytes(self._unshown) + data)
        self.show()

    @property
    def unshown(self) -> bool:
        """Does some of it wait for the screen?"""
        return bool(self._unshown)

    def show(self, *, wait: bool = False) -> None:
        """As much as the screen takes. Who has stopped it (Ctrl-S, a pager) must not stop the run's bounds with it."""
        if self._bar:
            self._bar.clear()
        last = bytes(self._unshown[-1:])
        try:
            while self._unshown and has_room(self.screen, None if wait else 0.0):
                self._unshown = self._unshown[os.write(self.screen, self._unshown[:_ROOM]) :]
        except BlockingIOError:
            pass  # it has room for less than a character
        except OSError:
            self.screen = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # nobody looks any more; the run goes on
            self._unshown = self._unshown[:0]
        if self._bar and last == b"\n" and not self._unshown:
            self._bar.draw()

    def finish(self) -> None:
        """The run is over: show what the screen has not taken yet, however long that takes."""
        while self._unshown:
            self.show(wait=True)
        if self.screen > 2:
            os.close(self.screen)
