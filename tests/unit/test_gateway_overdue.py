"""A call may not last for ever: shared caps count on an hour at most."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from nightlatch.gateway.overdue import Overdue
from nightlatch.gateway.pipe import Pipe
from nightlatch.gateway.prices import Prices
from nightlatch.gateway.server import RequestHandler
from nightlatch.gateway.upstream import Upstream
from nightlatch.system import clock

BODY = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


async def serve(handler: Any) -> tuple[web.ServerRunner, str]:
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def until(happened: asyncio.Event) -> None:
    await asyncio.wait_for(happened.wait(), 10)


async def one_long_call(slots: str, *, streams: bool) -> list[dict[str, Any]]:
    """The messages to the supervisor about a call whose vendor does not come to an end."""
    left = asyncio.Event()

    async def vendor(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            if streams:
                await reply.prepare(request)
                await reply.write(b"event: ping\ndata: {}\n\n")
            await asyncio.sleep(60)
            return reply
        finally:
            left.set()

    ours, theirs = socket.socketpair()
    settings = {"key": "run", "slots": slots, "last": 0}
    ours.sendall(json.dumps(settings).encode() + b"\n")
    pipe, _ = await Pipe.open(theirs.detach())
    pipe._handle_message({"room": {"usd": 10**12}, "seen": 0, "until": clock.now() + 60, "to": 9})
    behind, base = await serve(vendor)
    upstream = Upstream({"anthropic": base}, {}, {})
    ready, overdue = asyncio.Event(), Overdue(longest=0.3, look=0.05)
    ready.set()
    prices = Prices({"m": {"input": 1, "output": 1}}, None)
    before, front = await serve(RequestHandler(settings, pipe, upstream, prices, overdue, ready).answer)
    watching = asyncio.create_task(overdue.watch())
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            async with client.post(f"{front}/run/anthropic/v1/messages", json=BODY) as reply:
                await reply.read()
    await until(left)
    assert not overdue._under_way
    watching.cancel()
    await before.cleanup()
    await upstream.close()
    await behind.cleanup()
    await pipe.close()
    return [json.loads(line) for line in ours.recv(1 << 16).splitlines()]


@pytest.mark.parametrize("streams", [False, True], ids=["no reply", "a stream that goes on"])
def test_a_call_that_lasts_too_long_is_cut_and_in_doubt(tmp_path, streams):
    found = asyncio.run(one_long_call(str(tmp_path / "calls.1"), streams=streams))
    assert [(one["do"], one.get("id")) for one in found] == [("called", None), ("held", 1), ("doubt", 1)]
