"""Server-sent events for a run's page: its output, resumed at any byte, and a notice when the rest has changed."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from ..core import statuses
from ..core.printable import printable
from ..observe.reader import StoreReader
from . import output
from .run import live_state
from .site import Site

STREAMS = 40  # that may be open at once
_LOOK_EVERY = 0.5  # seconds between two looks at a run
_LOOK_AT_QUIET = 1.5  # seconds between two looks at a quiet run
_QUIET = 2.0  # seconds without news, after which a run counts as quiet
_HEARTBEAT = 15.0  # seconds without news, after which one is sent
PATIENCE = 30.0  # seconds that a write waits for a client that does not read
_RECONNECT_AFTER = 2000  # milliseconds that a browser waits


async def send(response: web.StreamResponse, data: bytes) -> None:
    """Write to the client. Raises `TimeoutError` if it does not read."""
    async with asyncio.timeout(PATIENCE):
        await response.write(data)


def abort_connection(request: web.Request) -> web.StreamResponse:
    """Abort the connection of a client that does not read; what was not sent is dropped."""
    if request.transport:
        request.transport.abort()
    return web.Response()


class Live:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/{prefix}/run/{run}/events", self.events)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= STREAMS:
            raise web.HTTPServiceUnavailable(text="Too many pages are open.\n", headers={"Retry-After": "10"})
        self._streams += 1
        try:
            return await self._stream(request)
        except TimeoutError:
            return abort_connection(request)
        finally:
            self._streams -= 1

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        run, place = request.match_info["run"], request.headers.get("Last-Event-ID") or request.query.get("from", "")
        await self._site.read(lambda reader: reader.run(run))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Content-Type-Options": "nosniff",
                                               "Cache-Control": "no-store", "X-Accel-Buffering": "no"})  # fmt: skip
        await response.prepare(request)
        await response.write(f"retry: {_RECONNECT_AFTER}\n\n".encode())
        state, quiet, pause = "", 0.0, _LOOK_EVERY
        while True:
            text, place, now, over = await self._site.read(_news, run, place)
            message = text
            if now != state and state:
                message += f"event: changed\ndata: {json.dumps(now.partition(' ')[0])}\n\n"
            state = now
            if over and not text:
                await send(response, f"{message}event: over\ndata: {{}}\n\n".encode())
                return response
            quiet = 0.0 if message else quiet + pause
            if message:
                await send(response, message.encode())
            elif quiet >= _HEARTBEAT:
                quiet = _QUIET
                await send(response, b": still here\n\n")
            if not text:
                pause = _LOOK_EVERY if quiet < _QUIET else _LOOK_AT_QUIET
                await asyncio.sleep(pause)


def _news(reader: StoreReader, run_id: str, place: str) -> tuple[str, str, str, bool]:
    """(events, the place after them, what the rest of the page depends on, whether the run is over)"""
    run = reader.run(run_id)  # before the output, so that nothing printed before the end is missed
    lines, where, lost = output.added(output.folder_of(reader, run.id), place)
    text = ""
    if lines or lost:
        shown = [[printable(line.rstrip("\n"))[: output.LINE], line.endswith("\n")] for line in lines]
        text = f"id: {where}\nevent: output\ndata: {json.dumps({'lines': shown, 'lost': lost})}\n\n"
    return text, where, live_state(reader, run), run.status not in statuses.OPEN
