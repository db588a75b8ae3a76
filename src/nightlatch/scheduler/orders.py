"""Messages between the scheduler, the forking process and its supervisors: a length, then JSON."""

from __future__ import annotations

from ..core.json_text import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    Message = dict[str, Any]


def send(channel: socket.socket, message: Message) -> None:
    body = dumps(message).encode()
    try:
        channel.sendall(len(body).to_bytes(4) + body)
    except OSError:
        pass  # the other side is gone: the next read reports it


def receive(channel: socket.socket) -> Message | None:
    """The next message; None: the other side is gone."""
    length = _receive_exactly(channel, 4)
    body = _receive_exactly(channel, int.from_bytes(length)) if length else None
    return loads(body) if body is not None else None


def _receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        try:
            more = channel.recv(size - len(found))
        except ConnectionError:
            return None
        if not more:
            return None
        found += more
    return found
