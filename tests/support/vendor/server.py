"""The server: reads a call, asks for its plan, charges, answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from . import shapes, tariff
from .plan import CUT, LOST, MUTE, OVERLOADED, PROXY, REFUSED, RESET, Plan
from .shapes import Came
from .tariff import Counts

# The gateway's stated assumption: no vendor makes output faster than this.
BURST, SPEED = 2000, 1000

_ROUTES: list[tuple[str, str, Any]] = [
    (r"/v1/messages", "anthropic", shapes.messages),
    (r"/v1/chat/completions", "openai", shapes.chat),
    (r"/v1/responses", "openai", shapes.responses),
    (r"/v1/embeddings", "openai", shapes.embeddings),
    (r"/v1\w*/models/[^/:]+:(streamG|g)enerateContent", "google", shapes.generate),
    (r"/v1\w*/interactions", "google", shapes.interactions),
]


@dataclass(frozen=True)
class Received:
    """A call as it arrived."""

    vendor: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    size: int
    shape: str  # messages, chat, responses, …
    number: int

    @property
    def model(self) -> str:
        return str(self.body.get("model") or self.path.rsplit("/", 1)[-1].partition(":")[0])

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream")) or "streamGenerateContent" in self.path

    @property
    def most(self) -> int:
        """Tokens of output that it allows."""
        config = self.body.get("generationConfig") or self.body.get("generation_config") or {}
        for found in (
            self.body.get("max_tokens"), self.body.get("max_completion_tokens"), self.body.get("max_output_tokens"),
            config.get("maxOutputTokens"), config.get("max_output_tokens"),
        ):  # fmt: skip
            if found:
                return int(found)
        return 128_000


@dataclass
class Charge:
    """What one call was charged."""

    call: Received
    plan: Plan
    usd: int = 0  # billionths
    input: int = 0
    output: int = 0
    ended: str = ""  # how


@dataclass
class Vendor:
    plan: Callable[[Received], Plan] = lambda _: Plan()
    cost: Callable[[str, str, Counts], int] = tariff.listed
    counts: bool = True  # it has counting endpoints
    calls: list[Charge] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)  # (method, path) of requests that are not metered calls
    url: str = ""

    def __post_init__(self) -> None:
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.open = 0  # calls that are being answered

    # ── life ──

    def __enter__(self) -> Vendor:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)
        self.cost("openai", "gpt-5.4", Counts())  # imports now what it needs
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop and self._stop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    async def _live(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.ServerRunner(web.Server(self._answer, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    @property
    def environment(self) -> dict[str, str]:
        """For a program that is to find it, each vendor with a key."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-real-0123456789abcdef",
            "OPENAI_API_KEY": "sk-openai-real-0123456789abcdef",
            "GEMINI_API_KEY": "google-real-0123456789abcdef",
        }

    @property
    def charged(self) -> int:
        """Billionths, so far. A call that is being ended is waited for: it is charged at its end."""
        deadline = time.monotonic() + 20
        while self.open and time.monotonic() < deadline:
            time.sleep(0.005)
        with self._lock:
            return sum(charge.usd for charge in self.calls)

    # ── calls ──

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        route = next((one for one in _ROUTES if re.fullmatch(one[0], path)), None)
        if request.method != "POST" or route is None:
            return await self._other(request)
        raw = await request.content.read()
        _, vendor, shape = route
        with self._lock:
            number = len(self.calls)
            call = Received(
                vendor,
                path,
                {name.lower(): text for name, text in request.headers.items()},
                json.loads(raw),
                len(raw),
                shape.__name__,
                number,
            )
            plan = self.plan(call)
            charge = Charge(call, plan)
            self.calls.append(charge)
            self.open += 1
        try:
            return await self._charged(request, call, plan, charge, shape)
        finally:
            with self._lock:
                self.open -= 1

    async def _other(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._lock:
            self.others.append((request.method, request.path))
        raw = await request.content.read()
        if self.counts and request.path.endswith(("/count_tokens", "/input_tokens", ":countTokens")):
            tokens = prompt_tokens(json.loads(raw))
            name = "totalTokens" if request.path.endswith(":countTokens") else "input_tokens"
            return web.json_response({name: tokens})
        if request.method == "GET" and "/models" in request.path:
            return web.json_response({"data": [], "object": "list", "models": [], "has_more": False})
        if request.method == "HEAD":
            return web.Response()
        return web.json_response({"error": {"message": "not here", "type": "not_found_error"}}, status=404)

    async def _charged(
        self, request: web.BaseRequest, call: Received, plan: Plan, charge: Charge, shape: Any
    ) -> web.StreamResponse:
        arrived = time.monotonic()
        charge.ended = plan.fault
        if plan.fault in (REFUSED, OVERLOADED):
            await asyncio.sleep(plan.delay)
            return _error(call, plan.fault)
        if plan.fault == RESET:
            assert request.transport
            request.transport.abort()
            return web.Response()
        tokens = prompt_tokens(call.body) if plan.input is None else plan.input
        output = 0 if call.shape == "embeddings" else min(plan.output, call.most)
        came = Came(f"{call.number:06d}", plan.model or call.model, tokens, output, plan, call.body)
        reply, events = shape(came)
        if plan.fault == MUTE:
            reply, events = _muted(reply), [event for event in events if b'"usage' not in event]
        # Whatever happens from here on, what was made is charged: a client that leaves ends it.
        made = output
        try:
            await asyncio.sleep(plan.delay)
            if plan.fault == PROXY:
                return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
            if plan.fault == LOST:
                assert request.transport
                request.transport.abort()
                return web.Response()
            if call.stream:
                return await self._stream(request, events, plan)
            data = json.dumps(reply).encode()
            if plan.fault == CUT:
                return await _cut(request, data)
            return web.Response(body=data, content_type="application/json")
        except asyncio.CancelledError:
            charge.ended = charge.ended or "left"
            raise
        finally:
            if charge.ended:
                made = min(output, int(BURST + SPEED * (time.monotonic() - arrived)))
            usd = self.cost(call.vendor, came.model, _counts(came, made))
            with self._lock:
                charge.usd, charge.input, charge.output = usd, tokens, made

    async def _stream(self, request: web.BaseRequest, events: list[bytes], plan: Plan) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        for place, event in enumerate(events):
            if plan.fault == CUT and place == len(events) // 2:
                assert request.transport
                request.transport.abort()
                return answer
            await answer.write(event)
            while plan.waits_for and not os.path.exists(plan.waits_for):
                await asyncio.sleep(0.01)
            if plan.pause:
                await asyncio.sleep(plan.pause)
        await answer.write_eof()
        return answer


_PROMPT = ("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools")


def prompt_tokens(body: dict[str, Any]) -> int:
    """The same for a call and for the free count of it: a token for four characters of what the model reads."""
    body = body.get("generateContentRequest") or body
    return sum(len(json.dumps(body[name])) for name in _PROMPT if name in body) // 4


def _counts(came: Came, output: int) -> Counts:
    plan = came.plan
    return Counts(
        input=came.fresh,
        cache_read=plan.cache_read,
        cache_write=plan.cache_write,
        cache_write_1h=plan.cache_write_1h,
        output=output,
        searches=plan.searches,
    )


async def _cut(request: web.BaseRequest, data: bytes) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(data))})
    await answer.prepare(request)
    await answer.write(data[: len(data) // 2])
    assert request.transport
    request.transport.abort()
    return answer


def _muted(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: found for name, found in reply.items() if name not in ("usage", "usageMetadata")}


def _error(call: Received, fault: str) -> web.Response:
    status = 429 if fault == REFUSED else 529 if call.vendor == "anthropic" else 503
    message = {"message": "slow down", "type": "rate_limit_error" if fault == REFUSED else "overloaded_error"}
    bodies = {
        "anthropic": {"type": "error", "error": message},
        "openai": {"error": {**message, "code": None, "param": None}},
        "google": {"error": {"code": status, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
    }
    return web.json_response(bodies[call.vendor], status=status)
