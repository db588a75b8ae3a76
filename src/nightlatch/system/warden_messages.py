"""What a supervisor and its warden share: messages through a pipe, and the reasons for an end."""

from __future__ import annotations

import marshal
import os

from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Why the tree was ended.
LOST, ORPHANED, SIGNALLED, LEFTOVERS = "lost", "orphaned", "signalled", "leftovers"
FAILED, TIMED_OUT, OVERDUE = "failed", "timed-out", "overdue"

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # what people and systems send to end a command

_HEADER = 4


def send(fd: int, *message: Any) -> None:
    body = marshal.dumps(message)
    data = memoryview(len(body).to_bytes(_HEADER, "big") + body)
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> Any:
    """The next message; None at end of file."""
    header = _read(fd, _HEADER)
    body = _read(fd, int.from_bytes(header, "big")) if header else b""
    return marshal.loads(body) if body else None  # noqa: S302 - both ends are one program, forked


def _read(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data
