"""A network that is far away: a proxy that adds a fixed time to every round trip."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def slow_proxy(port: int, round_trip: float) -> Iterator[int]:
    """Passes bytes on to `port`, each half a round trip late, and connects a round trip late. Yields its own port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=_accept, args=(listener, port, round_trip), daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, port: int, round_trip: float) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # closed
        connected = time.monotonic() + round_trip  # the kernel has shaken hands already
        server = socket.create_connection(("127.0.0.1", port))
        for source, sink in ((client, server), (server, client)):
            sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=_read, args=(source, waiting, connected, round_trip / 2), daemon=True).start()
            threading.Thread(target=_write, args=(sink, waiting), daemon=True).start()


def _read(
    source: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]], connected: float, late: float
) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        waiting.put((max(time.monotonic(), connected) + late, data))


def _write(sink: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    """Bytes when they are due; an empty message ends this direction."""
    while True:
        due, data = waiting.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
        except OSError:
            return  # the other side is gone
