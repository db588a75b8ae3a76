"""Requests to the gateway: whose they are, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError, web

from ..core.metering import price
from ..core.metering.call import PREAMBLE, UNSTATED, Call
from ..core.value import replace, value
from ..system import clock
from . import routes
from .asked import TOOL_TOKENS
from .body import BadBody, Body
from .events import parsed
from .forward import Forward

if TYPE_CHECKING:
    from ..core.metering.price import Price
    from .asked import Asked
    from .dialects import Dialect
    from .pipe import Pipe
    from .prices import Prices
    from .upstream import Upstream

_VENDORS = ("anthropic", "openai", "google", "chatgpt")  # the last: codex with a login
_AGENT = "x-claude-code-agent-id"
_MARGIN, _ROOM = 50, 64  # a count of the vendor's may be off by one part in so many, and a few tokens
_COUNT_WITHIN = 20.0  # seconds
_REMEMBERED = 10_000  # ids of earlier turns


@value(frozen=True, kw_only=True)
class _Rates:
    prices: list[Price]
    input: int
    output: int
    window: int


class RequestHandler:
    def __init__(
        self, settings: dict[str, Any], pipe: Pipe, upstream: Upstream, prices: Prices, ready: asyncio.Event
    ) -> None:
        """`ready`: the prices are loaded."""
        self._key, self._allow = settings["key"], settings.get("allow") or {}
        self._pipe, self._upstream, self._prices, self._ready = pipe, upstream, prices, ready
        self._known: dict[tuple[object, ...], _Rates | None] = {}
        self._turns: dict[str, int] = {}  # tokens last seen under an id that the vendor keeps

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        first, vendor, path = (*request.raw_path.partition("?")[0].lstrip("/").split("/", 2), "", "")[:3]
        key, _, item = first.partition(".")
        plain = routes.PLAIN.get(vendor, routes.MESSAGES)
        if key != self._key or vendor not in _VENDORS:
            return _stale(plain)
        path = re.sub("/+", "/", path).rstrip("/")
        if request.method == "POST" and (dialect := routes.metered(vendor, path)) is not None:
            return await self._metered(request, vendor, dialect, path, item)
        if routes.is_free(request.method, path):
            return await self._pass(request, vendor, path)
        if (stated := self._allow.get(path)) is not None and request.method == "POST":
            return await self._at_a_price(request, vendor, path, item, stated)
        why = f"{request.method} /{path} cannot be metered, so this run may not call it"
        self._pipe.refused(why)
        return _refuse(plain, why, status=403)

    async def _metered(
        self, request: web.BaseRequest, vendor: str, dialect: Dialect, path: str, item: str
    ) -> web.StreamResponse:
        arrived = clock.now()
        try:
            body = Body(await request.content.read())
            asked = dialect.read(body, path)
        except BadBody as error:
            return _refuse(dialect, str(error), status=400)
        await self._ready.wait()
        rates = self._rates(dialect.vendor, asked)
        why = asked.refused or ("" if rates else _unpriced(asked))
        if why or rates is None:
            self._pipe.refused(why)
            return _refuse(dialect, why)
        headers = self._upstream.headers(request.headers)
        call = await self._bounded(vendor, dialect, body, path, asked, rates, headers)
        about = {
            "model": asked.models[0],
            "item": item,
            "agent": request.headers.get(_AGENT, ""),
            "at": arrived,
            "login": not self._upstream.has_key(request),
        }
        reply = await self._hold(
            call, asked, rates.prices, about, lambda: self._count(vendor, dialect, body, path, headers)
        )
        if "refused" in reply:
            return _refuse(dialect, reply["refused"])
        try:
            drop = self._limited(dialect, body, asked, reply)
        except BaseException:
            self._pipe.free(reply["id"])
            raise
        forward = Forward(dialect, self._pipe, reply["id"], self._prices, asked, drop_ours=drop)
        going = self._upstream.request(vendor, "POST", path, request.query_string, headers, body.data)
        answer = await forward.run(request, going)
        if forward.seen.id and asked.has_output:
            self._remember(forward.seen.id, forward.seen.total)
        return answer

    def _limited(self, dialect: Dialect, body: Body, asked: Asked, reply: dict[str, Any]) -> bool:
        """Make the body ask for no more than is held. True: its reply has an event that is not passed on."""
        if asked.has_output and reply["output"] != asked.output:
            dialect.limit(body, reply["output"])
        if asked.uses:
            dialect.allow_uses(body, reply["uses"])
        return dialect.prepare(body, asked)

    def _rates(self, vendor: str, asked: Asked) -> _Rates | None:
        """The dearest of all prices that may apply; None if one of its models has none."""
        key = vendor, asked.models, asked.tier, asked.inputs
        if key not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = [self._prices.find(vendor, name, asked.tier) for name in asked.models]
            prices = [one for some in found for one in some]
            self._known[key] = _Rates(
                prices=prices,
                input=max(one.dearest(*asked.inputs) for one in prices),
                output=max(one.dearest(*price.OUTPUTS) for one in prices),
                window=max(one.window for one in prices) or 1_000_000,
            ) if all(found) else None  # fmt: skip
        return self._known[key]

    async def _bounded(
        self,
        vendor: str,
        dialect: Dialect,
        body: Body,
        path: str,
        asked: Asked,
        rates: _Rates,
        headers: dict[str, str],
    ) -> Call:
        """The most it can come to, by the size of its body where that is enough."""
        window = rates.window
        tokens, counted = body.size + PREAMBLE, False
        if asked.after:
            tokens = min(self._turns.get(asked.after, window) + tokens, max(window, tokens))
        if asked.uncounted:
            found = await self._count(vendor, dialect, body, path, headers)
            tokens, counted = (window, False) if found is None else (found, True)
        call = Call(
            input=tokens,
            input_rate=rates.input,
            output=asked.output if asked.has_output else 0,
            output_rate=rates.output if asked.has_output else 0,
            lowest=asked.lowest if asked.has_output else 0,
            highest=min(window, UNSTATED) if asked.output is None else asked.output,
            times=asked.times,
            counted=counted,
        )
        return _with_uses(call, asked, rates.prices, asked.uses)

    async def _hold(
        self, call: Call, asked: Asked, prices: list[Price], about: dict[str, Any], count: Any
    ) -> dict[str, Any]:
        """Held; with fewer uses of the vendor's tools if it does not fit otherwise."""
        uses = asked.uses
        while True:
            about["again"] = uses > 1  # a refusal is not the last word
            reply = await self._pipe.hold(call, **about)
            if reply.get("count"):  # it would be lowered, or refused, by its size: ask how much it really is
                found = await count()
                call = replace(call, input=call.input if found is None else min(found, call.input), counted=True)
            elif "refused" in reply and uses > 1:
                uses //= 2
                call = _with_uses(call, asked, prices, uses)
            else:
                return reply | {"uses": uses}

    async def _count(self, vendor: str, dialect: Dialect, body: Body, path: str, headers: dict[str, str]) -> int | None:
        """Tokens of input by the vendor's own count, with a margin; None if it does not say."""
        counting = dialect.counting(body, path)
        if counting is None:
            return None
        there, asked = counting
        data = json.dumps(asked).encode()
        try:
            async with asyncio.timeout(_COUNT_WITHIN):
                async with self._upstream.request(vendor, "POST", there, "", headers, data) as reply:
                    found = parsed(await reply.read()) if reply.status == 200 else None
        except (ClientError, TimeoutError, OSError):
            return None
        tokens = dialect.counted(found) if isinstance(found, dict) else None
        return None if tokens is None else tokens + tokens // _MARGIN + _ROOM

    def _remember(self, turn: str, tokens: int) -> None:
        self._turns[turn] = tokens
        if len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]

    async def _pass(self, request: web.BaseRequest, vendor: str, path: str) -> web.StreamResponse:
        data = await request.content.read() or None
        headers = self._upstream.headers(request.headers)
        forward = Forward(routes.PLAIN[vendor], None, 0, self._prices, None, drop_ours=False)
        return await forward.run(
            request, self._upstream.request(vendor, request.method, path, request.query_string, headers, data)
        )

    async def _at_a_price(
        self, request: web.BaseRequest, vendor: str, path: str, item: str, stated: int
    ) -> web.StreamResponse:
        """A path that people have opened, each call at a price in billionths."""
        data = await request.content.read() or None
        call = Call(input=0, input_rate=0, output=0, output_rate=0, lowest=0, fee=stated)
        about = {
            "model": path,
            "item": item,
            "agent": request.headers.get(_AGENT, ""),
            "at": clock.now(),
            "login": not self._upstream.has_key(request),
        }
        reply = await self._pipe.hold(call, **about)
        if "refused" in reply:
            return _refuse(routes.PLAIN[vendor], reply["refused"])
        headers = self._upstream.headers(request.headers)
        forward = Forward(
            routes.PLAIN[vendor], self._pipe, reply["id"], self._prices, None, drop_ours=False, fee=stated
        )
        return await forward.run(
            request, self._upstream.request(vendor, "POST", path, request.query_string, headers, data)
        )


def _with_uses(call: Call, asked: Asked, prices: list[Price], uses: int) -> Call:
    if not asked.tools:
        return call
    fee = max(one.dearest(tool) for one in prices for tool in asked.tools)
    return replace(call, fee=price.rounded_up(fee * uses), extra=TOOL_TOKENS * uses)


def _unpriced(asked: Asked) -> str:
    name = f"{asked.models[0]}:{asked.tier}" if asked.tier else asked.models[0]
    return f'no price is known for the model {name}: add [prices."{name}"] with input and output to nightlatch.toml'


def _refuse(dialect: Dialect, message: str, *, status: int = 0) -> web.Response:
    code, body = dialect.refusal(f"nightlatch: {message}")
    headers = {"x-should-retry": "false"}
    return web.json_response(body, status=status or code, headers=headers)


def _stale(dialect: Dialect) -> web.Response:
    """Another run's key, or an old one: 401 is what every client stops at."""
    _, body = dialect.refusal("nightlatch: this run is over; the address is not valid any more")
    if "type" in body:
        body["error"]["type"] = "authentication_error"
    return web.json_response(body, status=401, headers={"x-should-retry": "false"})
