"""Calls to each of several addresses, in turns, under `nightlatch run`: `python -m bench.gateway_client OUT NAME=URL …`

OUT gets seconds until a whole JSON reply, and until the first byte of a stream: the medians of many short turns, in
changing order, so that a busy moment of the machine hits all alike and counts in few of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time

import aiohttp

CALLS = int(os.environ.get("BENCH_CALLS", "240"))  # in a turn
TURNS = int(os.environ.get("BENCH_TURNS", "11"))
SIZES = {"400 B": 400, "46 KB": 46_000}


def body(size: int, stream: bool) -> bytes:
    text = "x" * (size - 150)
    asked = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
    return json.dumps({**asked, **({"stream": True} if stream else {})}).encode()


async def one(session: aiohttp.ClientSession, url: str, data: bytes, headers: dict[str, str], stream: bool) -> float:
    started = time.perf_counter()
    async with session.post(url, data=data, headers=headers) as reply:
        assert reply.status == 200, await reply.text()
        if stream:
            await reply.content.readany()
            taken = time.perf_counter() - started
            await reply.read()
            return taken
        await reply.read()
        return time.perf_counter() - started


async def measure(url: str, key: str, size: int, stream: bool, connections: int, calls: int) -> list[float]:
    headers = {"x-api-key": key, "content-type": "application/json", "anthropic-version": "2023-06-01"}
    data = body(size, stream)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client() -> list[float]:
            await one(session, url, data, headers, stream)
            return [await one(session, url, data, headers, stream) for _ in range(calls // connections)]

        return [taken for found in await asyncio.gather(*(client() for _ in range(connections))) for taken in found]


async def main(out: str, places: dict[str, str]) -> None:
    places["gateway"] = f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages"
    found: dict[str, dict[str, list[float]]] = {}
    for size_name, size in SIZES.items():
        for stream in (False, True):
            for connections in (1, 16):
                kind = "SSE first byte" if stream else "JSON"
                what = f"{size_name}, {kind}, {connections} at once"
                taken: dict[str, list[float]] = {name: [] for name in places}
                for turn in range(TURNS):
                    for name in list(places)[:: 1 if turn % 2 else -1]:
                        calls = CALLS if name != "litellm" else CALLS // 10
                        key = os.environ["BENCH_LITELLM_KEY" if name == "litellm" else "ANTHROPIC_API_KEY"]
                        times = await measure(places[name], key, size, stream, connections, max(calls, connections * 3))
                        taken[name].append(statistics.median(times))
                found[what] = taken
    with open(out, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])))
