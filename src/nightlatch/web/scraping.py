"""`/metrics`, for Prometheus, in three ways: below the session's path, with a bearer token, at a separate port."""

from __future__ import annotations

from aiohttp import web

from ..errors import StoreUnreachable, UsageError
from ..observe import stages
from ..observe.reader import StoreReader
from .guard import METRICS
from .site import Site

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Scraping:
    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[web.RouteDef]:
        return [web.get(METRICS, self.show), web.get(f"/{{prefix}}{METRICS}", self.show)]

    def routes_at_own_port(self) -> list[web.RouteDef]:
        """The only route of the separate port."""
        return [web.get(METRICS, self.show)]

    async def show(self, request: web.Request) -> web.Response:
        try:
            return web.Response(body=await self._site.read(self._text), headers={"Content-Type": _TYPE})
        except UsageError as error:
            raise web.HTTPNotImplemented(text=f"{error}\n") from None
        except StoreUnreachable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None

    def _text(self, reader: StoreReader) -> bytes:
        from ..observe import metrics  # it needs an extra, which the pages do not

        return metrics.text(reader, stages.configured())
