"""`python -m bench.gateway_upstream PORT`: a vendor that answers at once. With a URL: a proxy that only passes on."""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
from aiohttp import web

_USAGE = {"input_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 20}
_MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "good night " * 20}], "usage": _USAGE,
}  # fmt: skip
_JSON = json.dumps(_MESSAGE).encode()


def _event(kind: str, **facts: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **facts})}\n\n".encode()


_DELTA = _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "night"})
_EVENTS = [
    _event("message_start", message={**_MESSAGE, "content": []}),
    *[_DELTA] * 5,
    _event("message_delta", delta={}, usage=_USAGE),
]


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    body = await request.content.read()
    if b'"stream": true' not in body and b'"stream":true' not in body:
        return web.Response(body=_JSON, content_type="application/json")
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    for event in _EVENTS:
        await reply.write(event)
    await reply.write_eof()
    return reply


def passing(base: str, session: aiohttp.ClientSession):
    async def forward(request: web.BaseRequest) -> web.StreamResponse:
        headers = {name: text for name, text in request.headers.items() if name not in ("Host", "Content-Length")}
        body = await request.content.read()
        async with session.post(base + request.path, headers=headers, data=body) as found:
            if found.content_type == "text/event-stream":
                reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await reply.prepare(request)
                async for chunk in found.content.iter_any():
                    await reply.write(chunk)
                await reply.write_eof()
                return reply
            return web.Response(body=await found.read(), content_type=found.content_type, status=found.status)

    return forward


async def main(port: int, base: str) -> None:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    runner = web.ServerRunner(web.Server(passing(base, session) if base else answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
