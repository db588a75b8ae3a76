"""The gateway's process: `python -m nightlatch.gateway`, started by a run's supervisor.

Descriptor 3 is the listening socket, 4 the pipe to the supervisor. When the supervisor ends, so does this process.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys

from aiohttp import web

from ..system.secrecy import hide_memory
from .overdue import Overdue
from .pipe import Pipe
from .prices import Prices
from .server import RequestHandler
from .upstream import Upstream

LISTENING, PIPE = 3, 4


async def live() -> None:
    pipe, settings = await Pipe.open(PIPE)
    upstream = Upstream(settings["bases"], settings["keys"], settings["proxies"])
    prices, ready = Prices(settings["prices"], settings["ceiling"]), asyncio.Event()
    overdue = Overdue()
    handler = RequestHandler(settings, pipe, upstream, prices, overdue, ready)
    # A client that leaves cancels the handler, and that closes the connection to the vendor.
    server = web.Server(handler.answer, handler_cancellation=True, keepalive_timeout=3600.0)
    runner = web.ServerRunner(server, shutdown_timeout=0.0)
    await runner.setup()
    site = web.SockSite(runner, socket.socket(fileno=LISTENING))
    await site.start()
    prices.load()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # calls leave few reference cycles behind
    ready.set()
    watching = asyncio.create_task(overdue.watch())
    await pipe.over.wait()
    watching.cancel()
    await site.stop()
    await server.shutdown(0.0)
    await upstream.close()
    await pipe.close()


def main() -> int:
    hide_memory()
    os.umask(0o077)
    asyncio.run(live())
    return 0


if __name__ == "__main__":
    sys.exit(main())
