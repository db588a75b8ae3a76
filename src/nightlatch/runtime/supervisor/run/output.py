"""A command's output: shown live, kept for each run up to a size, secrets redacted."""

from __future__ import annotations

import os
import select
import sys

from ....system.durable import private_folder
from ....system.redaction import Redacted, Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..batches.bar import Bar

CAP = 16 << 20  # bytes of `output`; then it becomes `output.1`, in place of the previous one

_CHUNK = 1 << 16
_ROOM = 4096  # bytes that a writable pipe takes without blocking


class KeptOutput:
    """The kept output of one attempt: `output` in its folder, and `output.1` before it. They are made with the first
    byte. What cannot be kept, as when the disk is full, is shown all the same."""

    _complained = False

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "output")
        self._fd = -1
        self._size = 0

    def write(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            if not self._complained:
                self._complained = True
                print(f"nightlatch: not all of the output can be kept: {error.strerror}", file=sys.stderr)

    def _write(self, data: bytes) -> None:
        if self._fd < 0:
            private_folder(os.path.dirname(self.path))
            self._fd = self._open()
            self._size = os.fstat(self._fd).st_size
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size += len(data)
        if self._size > CAP:
            os.replace(self.path, f"{self.path}.1")
            full, self._fd, self._size = self._fd, self._open(), 0
            os.close(full)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _nonblocking(screen: int) -> int:
    """Open the terminal again, since one that polls as writable may still block a writer, and O_NONBLOCK on the
    inherited descriptor would apply to every process that shares it. What is not a terminal is returned as it is."""
    try:
        return os.open(os.ttyname(screen), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return screen


class OutputStream:
    """One stream of the command: what is read from `source` is redacted, shown on `screen` and kept."""

    def __init__(self, source: int, screen: int, kept: KeptOutput, hidden: Redactor, bar: Bar | None = None) -> None:
        self.source, self.screen, self._kept, self._bar = source, _nonblocking(screen), kept, bar
        self._redacted = Redacted(hidden)
        self._unshown = memoryview(b"")
        self.tail = b""  # the end of the output, where a final JSON may have usage

    def pump(self) -> bool:
        """Read what there is, keep it and show it; False at the end of the stream."""
        data = os.read(self.source, _CHUNK)
        shown = self._redacted.feed(data)
        self.tail = (self.tail + shown)[-_CHUNK * 4 :]
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
        """Is there output that the screen has not taken yet?"""
        return bool(self._unshown)

    def show(self, *, wait: bool = False) -> None:
        """Show as much as the screen takes. A stopped screen (Ctrl-S, a pager) must not stop the run's bounds."""
        if self._bar:
            self._bar.clear()
        last = bytes(self._unshown[-1:])
        try:
            while self._unshown and _has_room(self.screen, None if wait else 0.0):
                self._unshown = self._unshown[os.write(self.screen, self._unshown[:_ROOM]) :]
        except BlockingIOError:
            pass  # the terminal has no room after all
        except OSError:
            self.screen = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # the screen is gone; the run goes on
            self._unshown = self._unshown[:0]
        if self._bar and last == b"\n" and not self._unshown:
            self._bar.draw()

    def finish(self) -> None:
        """The run is over: show what the screen has not taken yet, however long that takes."""
        while self._unshown:
            self.show(wait=True)
        if self.screen > 2:
            os.close(self.screen)


def _has_room(fd: int, patience: float | None) -> bool:
    """Can `fd` be written to without blocking? Waits `patience` seconds for that; None: as long as it takes."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(None if patience is None else patience * 1000))
