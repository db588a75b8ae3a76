"""The process that shows the pages: on loopback, at a fixed port or the next one that is free."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable

from aiohttp import web

from ..config import place
from ..core import advice
from ..errors import UsageError
from ..store import url as stores
from .access import Access
from .actions import Actions
from .connections import OpenConnections
from .guard import BODY_SIZE, Guard, at_own_port
from .live import Live
from .routes import Pages
from .scraping import Scraping
from .settings import PORT
from .site import Site

Report = Callable[[str], None]

_NEXT = 20  # ports that are tried after the requested one
_IDLE = 30.0  # seconds that a connection may be kept between two requests


class PagesServer:
    def __init__(
        self, store: str, *, port: int = PORT, read_only: bool = False, url: str = "", metrics_port: int = 0
    ) -> None:
        """`url`: where a proxy shows the pages to others. `metrics_port`: where the metrics need no token."""
        self._store, self._port, self._read_only, self._url = store, port, read_only, url
        self._metrics_port = metrics_port
        self.access = Access(stores.folder_of(store))

    def run(self, report: Report, *, child: bool = False, ready: Callable[[int], None] | None = None) -> int:
        """Serve the pages until a signal asks to stop; as a child, also until the parent is gone. `ready` is called
        with the port, and opens the pages."""
        asyncio.run(self._run(report, child, ready))
        return 0

    async def _run(self, report: Report, child: bool, ready: Callable[[int], None] | None) -> None:
        guard = Guard(self.access, url=self._url, read_only=self._read_only)
        site = Site(self._store, self.access, guard)
        app = web.Application(middlewares=[guard.middleware, site.explain_error], client_max_size=BODY_SIZE)
        app.add_routes(routes(site, read_only=self._read_only))
        listener = listen(self._port)
        guard.port = listener.getsockname()[1]
        runner, guard.connections, server = await _serve(app, listener)
        self.access.note_port(guard.port)
        if guard.port != self._port and self._port:
            report(f"port {self._port} is taken, so the pages are at port {guard.port}")
        then = ", until Ctrl-C" if ready else f"; open them with: {_command_to_open()}"
        report(f"the pages are at http://127.0.0.1:{guard.port}{then}")
        started = [(runner, server), *(await self._metrics(site, report) if self._metrics_port else [])]
        if ready:
            ready(guard.port)
        try:
            await _end_requested(child)
        finally:
            self.access.forget_port(guard.port)
            for runner, server in started:
                server.close()
                await runner.cleanup()
            site.close()

    async def _metrics(self, site: Site, report: Report) -> list[tuple[web.AppRunner, asyncio.Server]]:
        """Serve the metrics at a separate port; if that is taken, the pages are still served."""
        try:
            listener = listen(self._metrics_port, following=0)
        except UsageError as error:
            report(str(error))
            return []
        app = web.Application(middlewares=[at_own_port(self._metrics_port)], client_max_size=BODY_SIZE)
        app.add_routes(Scraping(site).routes_at_own_port())
        runner, _, server = await _serve(app, listener)
        report(f"the metrics are at http://127.0.0.1:{self._metrics_port}/metrics")
        return [(runner, server)]


def _command_to_open() -> str:
    """The command to type in the shell that started `serve`. `serve` passed its file to us by --config; the command
    omits that if the shell finds the file without it."""
    if place.is_found_unnamed():
        return advice.to("open").shell(advice.chosen_store())
    return advice.command("open")


async def _serve(
    app: web.Application, listener: socket.socket
) -> tuple[web.AppRunner, OpenConnections, asyncio.Server]:
    """Serve an application behind our limits on headers and connections."""
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=_IDLE,
        max_line_size=8190,
        max_field_size=8190,
        shutdown_timeout=1.0,
        handler_cancellation=True,
    )
    await runner.setup()
    assert runner.server
    connections = OpenConnections(runner.server)
    return runner, connections, await asyncio.get_running_loop().create_server(connections, sock=listener)


def routes(site: Site, *, read_only: bool) -> list[web.RouteDef]:
    """All routes; if `read_only`, without those that change anything."""
    found = [*Pages(site).routes(), *Live(site).routes(), *Scraping(site).routes()]
    return found if read_only else [*found, *Actions(site).routes()]


def listen(port: int, following: int = _NEXT) -> socket.socket:
    """A socket that listens at this port, or at the next one that is free; 0: at any port."""
    for number in range(port, port + following + 1) if port else [0]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", number))
            listener.listen(128)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
    if not following:
        raise UsageError(f"port {port} of [pages] metrics_port is taken: name another one")
    raise UsageError(f"ports {port} to {port + following} are all taken: name another one with --port")


async def _end_requested(child: bool) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, end.set)
    if child:
        # The parent keeps the other end of this pipe: it closes when the parent is gone, however it ended.
        loop.add_reader(sys.stdin.fileno(), lambda: end.set() if not os.read(sys.stdin.fileno(), 64) else None)
    await end.wait()
