"""Server-sent events for a run's page: its output, resumed at any byte, and a notice when the rest has changed."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from ..core import statuses
from ..core.printable import printable
from ..observe.reader import StoreReader
from . import output
from .run import current
from .site import Site

STREAMS = 40  # at once
_LOOK_EVERY = 0.5  # seconds
_LOOK_AT_QUIET = 1.5  # seconds
_QUIET = 2.0  # seconds without news, after which the run is read less often
_BEAT = 15.0  # seconds without news before a heartbeat
PATIENCE = 30.0  # seconds that a write waits for a client that does not read
_AGAIN = 2000  # ms before a browser reconnects


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
        await response.write(f"retry: {_AGAIN}\n\n".encode())
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
            elif quiet >= _BEAT:
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
    return text, where, current(reader, run), run.status not in statuses.OPEN
