"""One call: to the vendor, its reply to the client as it arrives, and its usage to the supervisor."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import ClientConnectionError, ClientConnectorError, ClientError, web

from ..core.metering import price
from ..core.metering.price import Price
from .dialects import Dialect
from .events import Events, WholeReply
from .json_text import parsed
from .overdue import Overdue
from .pipe import Pipe, Row
from .prices import Prices
from .requested import ModelRequest, ReplyUsage
from .upstream import headers_for_client, read_all

_PROXY_ERRORS = frozenset((502, 504, *range(520, 528), 530))  # statuses from a proxy: the vendor may have done the work
_MOST_READ_WHOLE = 1 << 20  # bytes; a reply up to this size is read whole, and settled before the client has it


class Forward:
    def __init__(
        self,
        dialect: Dialect,
        pipe: Pipe | None,
        number: int,
        prices: Prices,
        requested: ModelRequest | None,
        *,
        drop_ours: bool,
        fee: int = 0,
    ) -> None:
        """`pipe`: None for a call that costs nothing. `requested`: None for such a call and one at a stated `fee`."""
        self._dialect, self._pipe, self._number, self._prices = dialect, pipe, number, prices
        self._requested, self._drop, self._fee = requested, drop_ours, fee
        self.usage = ReplyUsage()
        self._settled = pipe is None

    async def run(self, request: web.BaseRequest, sending: Any, overdue: Overdue) -> web.StreamResponse:
        """Whatever happens (an error, or the client leaves), the call is settled exactly once."""
        overdue.begin(request)
        try:
            async with sending as reply:
                return await self._answer(request, reply)
        except ClientConnectorError as error:  # never sent
            self._free()
            return _bad_gateway(self._dialect, f"the vendor cannot be reached: {error}")
        except (ClientConnectionError, ClientError, OSError) as error:
            self._doubt()
            return _bad_gateway(self._dialect, f"the vendor's reply was lost: {error}")
        finally:
            overdue.end(request)
            self._doubt()  # unless it is settled by now

    async def _answer(self, request: web.BaseRequest, reply: Any) -> web.StreamResponse:
        if reply.status >= 400:
            return await self._error(reply)
        headers = headers_for_client(reply.headers)
        if reply.content_type == "text/event-stream":
            reader: Events | WholeReply = Events(self._dialect, self.usage, drop_ours=self._drop)
        else:
            reader = WholeReply(self._dialect, self.usage)
            length = reply.content_length
            if length is not None and length <= _MOST_READ_WHOLE:
                data = await read_all(reply.content)
                reader.feed(data)
                reader.finish()
                self._settle()
                return web.Response(status=reply.status, headers=headers, body=data)
        return await self._stream(request, reply, headers, reader)

    async def _stream(
        self, request: web.BaseRequest, reply: Any, headers: dict[str, str], reader: Events | WholeReply
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=reply.status, headers=headers)
        await answer.prepare(request)
        try:
            async for chunk in reply.content.iter_any():
                if passed := reader.feed(chunk):
                    await answer.write(passed)
        except (ClientError, OSError):
            reader.finish()
            self._settle()  # by its usage, if that came before the cut; otherwise the call is in doubt
            if request.transport is not None:
                request.transport.abort()  # the client must see that the reply was cut
            raise _Cut from None
        except asyncio.CancelledError:
            self._settle()
            raise
        rest = reader.finish()
        self._settle()
        if rest:
            await answer.write(rest)
        await answer.write_eof()
        return answer

    async def _error(self, reply: Any) -> web.Response:
        data = await reply.read()
        found = parsed(data)
        from_vendor = reply.status not in _PROXY_ERRORS and isinstance(found, dict) and self._dialect.is_error(found)
        if self._requested is None or reply.status < 500 or from_vendor:
            self._free()
        else:
            self._doubt()
        return web.Response(status=reply.status, headers=headers_for_client(reply.headers), body=data)

    # ── a call ends once: settled, in doubt or free ──

    def _settle(self) -> None:
        if self._settled or self._pipe is None:
            return
        if self._requested is None:
            self._settled = True
            self._pipe.settle(self._number, [(price.CALL, 0, self._fee, 1, "")])
        elif self.usage.ended and self.usage.counts is not None:
            self._settled = True
            self._pipe.settle(self._number, self._rows())
        else:
            self._doubt()

    def _rows(self) -> list[Row]:
        """What the call used, a row for each kind; the first row counts the call."""
        found: list[Row] = []
        for model, counts in [(self.usage.model, self.usage.counts or {}), *self.usage.more]:
            model_price = self._price(model)
            name = model_price.model if model and self.usage.more else ""
            for kind, plain in model_price.cost(counts).items():
                usd = plain if kind in price.USES else price.raised(plain, self._surcharge)
                found.append((kind, 0 if kind in price.USES else counts[kind], usd, 0 if found else 1, name))
        return found or [(price.OUTPUT, 0, 0, 1, "")]

    @property
    def _surcharge(self) -> int:
        if self.usage.surcharge is None:
            return self._requested.surcharge if self._requested else 0
        return self.usage.surcharge

    def _price(self, model: str) -> Price:
        """The price of the model that answered; if it has none, of the requested model."""
        assert self._requested
        vendor, tier = self._dialect.vendor, self.usage.tier or self._requested.tier
        names = [model] if model and len(self._requested.models) + len(self.usage.more) > 1 else []
        for name in (*names, self._requested.models[0]):
            for priced_tier in (tier, self._requested.tier):
                if found := self._prices.find(vendor, name, priced_tier):
                    return found[0]
        raise AssertionError("a call without a price was forwarded")

    def _doubt(self) -> None:
        if self._settled or self._pipe is None:
            return
        self._settled = True
        known = None
        if self._requested and self.usage.input_known and self.usage.counts:
            inputs = {kind: count for kind, count in self.usage.counts.items() if kind in price.INPUTS}
            known = price.raised(sum(self._price(self.usage.model).cost(inputs).values()), self._surcharge)
        self._pipe.doubt(self._number, known)

    def _free(self) -> None:
        if not self._settled and self._pipe is not None:
            self._settled = True
            self._pipe.free(self._number)


class _Cut(ClientConnectionError):
    """The vendor's reply was cut, and the client's connection aborted."""


def _bad_gateway(dialect: Dialect, message: str) -> web.Response:
    _, body = dialect.refusal(f"nightlatch: {message}")
    if "type" in body:
        body["error"]["type"] = "api_error"
    return web.json_response(body, status=502)
