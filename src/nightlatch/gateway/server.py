"""Requests to the gateway: check the run's key, then meter, pass on or refuse."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import ClientError, web

from ..core.metering import price
from ..core.metering.call import PREAMBLE, UNSTATED, Call
from ..core.metering.price import Price
from ..core.value import replace, value
from ..system import clock
from . import routes
from .body import BadBody, Body
from .dialects import Dialect
from .forward import Forward
from .json_text import parsed
from .overdue import Overdue
from .pipe import Pipe
from .prices import Prices
from .requested import TOOL_TOKENS, ModelRequest
from .upstream import Headers, Upstream, read_all

_Count = Callable[[], Awaitable[int | None]]
_VENDORS = ("anthropic", "openai", "google", "chatgpt")  # the last: codex with a login
_AGENT = "x-claude-code-agent-id"  # the header that names a subagent
_MARGIN, _EXTRA = 50, 64  # added to a vendor's count: a fiftieth, and 64 tokens
_COUNT_WITHIN = 20.0  # seconds that the vendor has to count
_REMEMBERED = 10_000  # ids of earlier turns that are remembered, and rates
_ROUTES = 1000  # addresses that are remembered
_CALL = Call(input=0, input_rate=0, output=0, output_rate=0)


@value(frozen=True, kw_only=True)
class _Rates:
    prices: list[Price]
    input: int
    output: int
    window: int


class RequestHandler:
    def __init__(
        self,
        settings: dict[str, Any],
        pipe: Pipe,
        upstream: Upstream,
        prices: Prices,
        overdue: Overdue,
        ready: asyncio.Event,
    ) -> None:
        """`ready`: set once the prices are loaded."""
        self._key, self._allow = settings["key"], settings.get("allow") or {}
        self._pipe, self._upstream, self._prices = pipe, upstream, prices
        self._overdue, self._ready = overdue, ready
        self._routes: dict[str, tuple[str, Dialect, str, str]] = {}  # metered addresses → vendor, dialect, path, item
        self._known: dict[tuple[object, ...], _Rates | None] = {}  # see `_rates`
        self._turns: dict[str, int] = {}  # id of an earlier turn, which the vendor stores → its tokens

    def answer(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        route = self._routes.get(request.raw_path) if request.method == "POST" else None
        if route is None:
            return self._answer_new(request)
        self._pipe.report_called()
        return self._forward_metered(request, *route)

    async def _answer_new(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request to an address that is not remembered."""
        first, vendor, path = (*request.raw_path.partition("?")[0].lstrip("/").split("/", 2), "", "")[:3]
        key, _, item = first.partition(".")
        plain = routes.UNMETERED.get(vendor, routes.MESSAGES)
        if key != self._key or vendor not in _VENDORS:
            return _wrong_key(plain)
        self._pipe.report_called()
        path = (re.sub("/+", "/", path) if "//" in path else path).rstrip("/")
        if request.method == "POST" and (dialect := routes.metered(vendor, path)) is not None:
            if len(self._routes) < _ROUTES:
                self._routes[request.raw_path] = vendor, dialect, path, item
            return await self._forward_metered(request, vendor, dialect, path, item)
        if routes.is_free(request.method, path):
            return await self._pass_on(request, vendor, path)
        if (stated := self._allow.get(path)) is not None and request.method == "POST":
            return await self._forward_at_price(request, vendor, path, item, stated)
        why = f"{request.method} /{path} cannot be metered, so this run may not call it"
        self._pipe.report_refused(why)
        return _refuse(plain, why, status=403)

    async def _forward_metered(
        self, request: web.BaseRequest, vendor: str, dialect: Dialect, path: str, item: str
    ) -> web.StreamResponse:
        arrived = clock.now()
        try:
            body = Body(await read_all(request.content))
            requested = dialect.read(body, path)
        except BadBody as error:
            return _refuse(dialect, str(error), status=400)
        if not self._ready.is_set():
            await self._ready.wait()
        rates = self._rates(dialect.vendor, requested)
        why = requested.refused or ("" if rates else _unpriced(requested))
        if why or rates is None:
            self._pipe.report_refused(why)
            return _refuse(dialect, why)
        headers, login = self._upstream.headers(request)
        count = partial(self._count, vendor, dialect, body, path, headers)
        call = self._bounded(body, requested, rates, await count() if requested.uncounted else None)
        about = _about(request, requested.models[0], item, arrived, login)
        number = self._pipe.grant(call, about)
        reply: dict[str, Any] = {"id": number, "output": call.wanted, "uses": requested.uses}
        if not number:
            reply = await self._hold(call, requested, rates.prices, about, count)
        if "refused" in reply:
            return _refuse(dialect, reply["refused"])
        try:
            drop = self._limit_body(dialect, body, requested, reply)
        except BaseException:
            self._pipe.free(reply["id"])
            raise
        forward = Forward(dialect, self._pipe, reply["id"], self._prices, requested, drop_ours=drop)
        sending = self._upstream.request(vendor, "POST", path, request.query_string, headers, body.data)
        answer = await forward.run(request, sending, self._overdue)
        if forward.usage.id and requested.has_output:
            self._remember(forward.usage.id, forward.usage.total)
        return answer

    def _limit_body(self, dialect: Dialect, body: Body, requested: ModelRequest, reply: dict[str, Any]) -> bool:
        """Limit the body to what is held. True: the reply will have an event that is not passed on."""
        if requested.has_output and reply["output"] != requested.output:
            dialect.limit(body, reply["output"])
        if requested.uses:
            dialect.allow_uses(body, reply["uses"])
        return dialect.prepare(body, requested)

    def _rates(self, vendor: str, requested: ModelRequest) -> _Rates | None:
        """The highest of all prices that may apply; None if a requested model has no price."""
        key = vendor, requested.models, requested.tier, requested.inputs, requested.surcharge
        if key not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = [self._prices.find(vendor, name, requested.tier) for name in requested.models]
            prices = [one for some in found for one in some]
            self._known[key] = _Rates(
                prices=prices,
                input=price.raised(max(one.dearest(*requested.inputs) for one in prices), requested.surcharge),
                output=price.raised(max(one.dearest(*price.OUTPUTS) for one in prices), requested.surcharge),
                window=max(one.window for one in prices) or 1_000_000,
            ) if all(found) else None  # fmt: skip
        return self._known[key]

    def _bounded(self, body: Body, requested: ModelRequest, rates: _Rates, counted: int | None) -> Call:
        """The most that the call can use. Its input is bounded by the size of its body; if that is no bound, by the
        number of tokens that the vendor `counted`, or else by the model's window."""
        window, tokens = rates.window, body.size + PREAMBLE
        if requested.after:
            tokens = min(self._turns.get(requested.after, window) + tokens, max(window, tokens))
        if requested.uncounted:
            tokens = window if counted is None else counted
        call = replace(
            _CALL,
            input=tokens,
            input_rate=rates.input,
            output=requested.output if requested.has_output else 0,
            output_rate=rates.output if requested.has_output else 0,
            lowest=requested.lowest if requested.has_output else 0,
            highest=min(window, UNSTATED) if requested.output is None else requested.output,
            times=requested.times * requested.passes,
            passes=requested.passes,
            counted=counted is not None,
        )
        return _with_uses(call, requested, rates.prices, requested.uses)

    async def _hold(
        self, call: Call, requested: ModelRequest, prices: list[Price], about: dict[str, Any], count: _Count
    ) -> dict[str, Any]:
        """Hold the call, with fewer uses of the vendor's tools if it does not fit otherwise."""
        uses = requested.uses
        while True:
            about["again"] = uses > 1  # then a refusal is not final
            reply = await self._pipe.hold(call, about)
            if reply.get("count"):  # by its body's size it would be lowered or refused: ask the vendor to count
                found = await count()
                call = replace(call, input=call.input if found is None else min(found, call.input), counted=True)
            elif "refused" in reply and uses > 1:
                uses //= 2
                call = _with_uses(call, requested, prices, uses)
            else:
                return reply | {"uses": uses}

    async def _count(self, vendor: str, dialect: Dialect, body: Body, path: str, headers: Headers) -> int | None:
        """Tokens of input by the vendor's own count, with a margin; None if there is none."""
        counting = dialect.counting(body, path)
        if counting is None:
            return None
        count_path, question = counting
        data = json.dumps(question).encode()
        try:
            async with asyncio.timeout(_COUNT_WITHIN):
                async with self._upstream.request(vendor, "POST", count_path, "", headers, data) as reply:
                    found = parsed(await reply.read()) if reply.status == 200 else None
        except (ClientError, TimeoutError, OSError):
            return None
        tokens = dialect.counted(found) if isinstance(found, dict) else None
        return None if tokens is None else tokens + tokens // _MARGIN + _EXTRA

    def _remember(self, turn: str, tokens: int) -> None:
        self._turns[turn] = tokens
        if len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]

    async def _pass_on(self, request: web.BaseRequest, vendor: str, path: str) -> web.StreamResponse:
        data = await read_all(request.content) or None
        headers, _ = self._upstream.headers(request)
        forward = Forward(routes.UNMETERED[vendor], None, 0, self._prices, None, drop_ours=False)
        sending = self._upstream.request(vendor, request.method, path, request.query_string, headers, data)
        return await forward.run(request, sending, self._overdue)

    async def _forward_at_price(
        self, request: web.BaseRequest, vendor: str, path: str, item: str, stated: int
    ) -> web.StreamResponse:
        """Forward a call to a path that the user has allowed, at a stated price per call, in billionths of a dollar."""
        data = await read_all(request.content) or None
        headers, login = self._upstream.headers(request)
        call = Call(input=0, input_rate=0, output=0, output_rate=0, lowest=0, fee=stated)
        reply = await self._pipe.hold(call, _about(request, path, item, clock.now(), login))
        if "refused" in reply:
            return _refuse(routes.UNMETERED[vendor], reply["refused"])
        forward = Forward(
            routes.UNMETERED[vendor], self._pipe, reply["id"], self._prices, None, drop_ours=False, fee=stated
        )
        sending = self._upstream.request(vendor, "POST", path, request.query_string, headers, data)
        return await forward.run(request, sending, self._overdue)


def _with_uses(call: Call, requested: ModelRequest, prices: list[Price], uses: int) -> Call:
    if not requested.tools:
        return call
    fee = max(one.dearest(tool) for one in prices for tool in requested.tools)
    call = replace(call, fee=price.rounded_up(fee * uses), extra=TOOL_TOKENS * uses)
    if requested.consults:
        passes = requested.passes + uses
        call = replace(call, passes=passes, times=requested.times * passes)
    return call


def _unpriced(requested: ModelRequest) -> str:
    if not requested.models[0]:
        return "the request names no model, so its price is not known: set its model"
    name = f"{requested.models[0]}:{requested.tier}" if requested.tier else requested.models[0]
    return f'no price is known for the model {name}: add [prices."{name}"] with input and output to nightlatch.toml'


def _about(request: web.BaseRequest, model: str, item: str, at: float, login: bool) -> dict[str, Any]:
    return {"model": model, "item": item, "agent": request.headers.get(_AGENT, ""), "at": at, "login": login}


def _refuse(dialect: Dialect, message: str, *, status: int = 0) -> web.Response:
    code, body = dialect.refusal(f"nightlatch: {message}")
    headers = {"x-should-retry": "false"}
    return web.json_response(body, status=status or code, headers=headers)


def _wrong_key(dialect: Dialect) -> web.Response:
    """The answer to another run's key, or an old one: at 401 every client stops."""
    _, body = dialect.refusal("nightlatch: this run is over; the address is not valid any more")
    if "type" in body:
        body["error"]["type"] = "authentication_error"
    return web.json_response(body, status=401, headers={"x-should-retry": "false"})
