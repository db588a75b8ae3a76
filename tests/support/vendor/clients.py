"""Many clients at once. Each makes calls in a dialect and a way of its own, as fast as it can, until it is refused."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp

MODELS = {
    "messages": ("claude-opus-5-5", "claude-haiku-4-5"),
    "chat": ("gpt-5.4", "gpt-5.4-mini"),
    "responses": ("gpt-5.4", "gpt-5.4-mini"),
    "generate": ("gemini-3.6-flash", "gemini-3.1-pro-preview"),
}


def request(
    env: Mapping[str, str], dice: random.Random, shape: str, *, stream: bool
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Address, headers and body of a call."""
    model, text = dice.choice(MODELS[shape]), "good night " * dice.choice((1, 20, 200))
    most = dice.choice((50, 400, 3000))
    if shape == "messages":
        headers = {"x-api-key": env.get("ANTHROPIC_API_KEY", "")}
        body: dict[str, Any] = {"model": model, "max_tokens": most, "messages": [{"role": "user", "content": text}]}
        return f"{env['ANTHROPIC_BASE_URL']}/v1/messages", headers, body | ({"stream": True} if stream else {})
    if shape == "generate":
        headers = {"x-goog-api-key": env.get("GEMINI_API_KEY", "")}
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body = {"contents": [{"parts": [{"text": text}]}], "generationConfig": {"maxOutputTokens": most}}
        return f"{env['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/{model}:{verb}", headers, body
    headers = {"Authorization": f"Bearer {env.get('OPENAI_API_KEY', '')}"}
    if shape == "chat":
        body = {"model": model, "messages": [{"role": "user", "content": text}], "max_completion_tokens": most}
        path = "chat/completions"
    else:
        body, path = {"model": model, "input": text, "max_output_tokens": most}, "responses"
    return f"{env['OPENAI_BASE_URL']}/{path}", headers, body | ({"stream": True} if stream else {})


REFUSALS = 3  # of all together, after which all end by themselves: a run that goes on calling is ended
BROKEN = 10  # of one client in a row, a tenth of a second apart, after which it ends: nobody listens any more


async def client(
    session: aiohttp.ClientSession,
    env: Mapping[str, str],
    dice: random.Random,
    calls: int,
    refused: list[str],
    *,
    leaves: bool,
) -> Counter[str]:
    came: Counter[str] = Counter()
    broken = 0
    for _ in range(calls):
        if len(refused) >= REFUSALS or broken >= BROKEN:
            break
        shape, stream = dice.choice(list(MODELS)), dice.random() < 0.5
        url, headers, body = request(env, dice, shape, stream=stream)
        patience = dice.choice((0.02, 0.1)) if leaves and dice.random() < 0.1 else None
        try:
            async with asyncio.timeout(patience), session.post(url, headers=headers, json=body) as reply:
                data = await reply.read()
        except TimeoutError:
            came["left"] += 1
        except aiohttp.ClientError:
            came["broken"] += 1
            broken += 1
            await asyncio.sleep(0.1)
        else:
            broken = 0
            if b"nightlatch: the budget is spent" in data:
                came["refused"] += 1
                refused.append(shape)
                continue
            came[str(reply.status)] += 1
            if reply.status in (401, 403):
                return came
    return came


async def call_all(env: Mapping[str, str], seed: int, count: int, calls: int, *, leaves: bool) -> Counter[str]:
    """With the addresses and keys in `env`; `leaves`: some leave in the middle of a reply. Returns what came of it."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        refused: list[str] = []
        came = await asyncio.gather(
            *(client(session, env, random.Random(f"{seed}/{n}"), calls, refused, leaves=leaves) for n in range(count))
        )
    return sum(came, Counter[str]())
