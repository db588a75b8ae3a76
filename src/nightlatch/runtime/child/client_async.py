"""Requests to the run's supervisor from an event loop: one connection for each loop, many requests at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from weakref import WeakKeyDictionary

from ..shared.client import checked, encoded, envelope, no_reply, peer

_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _AsyncConnection] = WeakKeyDictionary()


async def send(request: dict[str, Any]) -> dict[str, Any]:
    """As `client.send`, without blocking the loop."""
    loop = asyncio.get_running_loop()
    connection = _connections.get(loop)
    if connection is None or connection.made_for != peer() or connection.is_cut:
        connection = _connections[loop] = _AsyncConnection()
    try:
        return checked(await connection.ask(request))
    except OSError as error:
        _connections.pop(loop, None)
        raise no_reply(error) from error


class _AsyncConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self.made_for, self._envelope = peer(), envelope()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number, self._unread = 0, b""
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[Any] | None = None

    @property
    def is_cut(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its reply. Requests are numbered, since replies may come in another order."""
        if self._transport is None:
            if self._connecting is None:
                self._connecting = self._loop.create_task(
                    self._loop.create_unix_connection(lambda: self, self.made_for[0])
                )
            await asyncio.shield(self._connecting)
        assert self._transport
        if self._transport.is_closing():
            raise ConnectionResetError("it hung up")
        self._number = number = self._number + 1
        future = self._waiting[number] = self._loop.create_future()
        self._transport.write(encoded(self._envelope, {"id": number, **request}))
        try:
            return dict(await future)
        finally:
            del self._waiting[number]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            reply = json.loads(line)
            future = self._waiting.get(reply.get("id"))
            if future and not future.done():
                future.set_result(reply)

    def connection_lost(self, _error: Exception | None) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("it hung up"))
