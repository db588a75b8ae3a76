"""Connections within limits. aiohttp waits for ever for the end of a header; here headers have a deadline and a size.

When there are too many connections, the oldest one that has not sent a whole header is aborted: five hundred silent
connections keep nobody out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

HEADER_WITHIN = 10.0  # seconds in which a header must arrive
HEADER_SIZE = 8192  # bytes
MOST = 200  # connections that may be open

_END = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class OpenConnections:
    """The open connections of one server."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], most: int = MOST) -> None:
        self._make_protocol, self._most = make_protocol, most
        self._open: dict[asyncio.BaseTransport, BoundedConnection] = {}

    def __call__(self) -> BoundedConnection:
        return BoundedConnection(self, self._make_protocol())

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: BoundedConnection, transport: asyncio.BaseTransport) -> None:
        self._open[transport] = connection
        if len(self._open) > self._most:
            silent = [one for one in self._open.values() if one.silent]
            (silent[0] if silent else connection).abort()

    def drop(self, transport: asyncio.BaseTransport) -> None:
        self._open.pop(transport, None)

    def of(self, transport: asyncio.BaseTransport | None) -> BoundedConnection | None:
        return self._open.get(transport) if transport else None


class BoundedConnection(asyncio.Protocol):
    """One connection: checks its headers, and passes everything on to aiohttp's protocol."""

    def __init__(self, open_connections: OpenConnections, inner: asyncio.Protocol) -> None:
        self._all, self._inner = open_connections, inner
        self._transport: asyncio.Transport | None = None
        self._header = b""
        self._timer: asyncio.TimerHandle | None = None
        self.silent = True  # waiting for a whole header

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(HEADER_WITHIN, self.abort)
        self._inner.connection_made(transport)
        self._all.add(self, transport)

    def data_received(self, data: bytes) -> None:
        if self.silent:
            self._header += data
            end = self._header.find(_END)
            if max(end, 0 if end >= 0 else len(self._header)) > HEADER_SIZE:
                assert self._transport
                self._transport.write(_TOO_LARGE)
                self._transport.close()
                return
            if end >= 0:
                self.header_arrived()
        self._inner.data_received(data)

    def header_arrived(self) -> None:
        """A whole header has arrived; from now on the request has its own deadlines."""
        self.silent, self._header = False, b""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def next_request(self) -> None:
        """The reply is sent: wait for the next header. aiohttp limits how long a connection may be idle."""
        self.silent = True

    def abort(self) -> None:
        if self._transport:
            self._all.drop(self._transport)  # at once: many may connect before the loop calls connection_lost
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.header_arrived()
        if self._transport:
            self._all.drop(self._transport)
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
