"""The vendor behind the gateway: its address, its key, the proxy to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import aiohttp
from aiohttp.web import BaseRequest
from multidict import CIMultiDict
from yarl import URL

from .requested import words

Headers = CIMultiDict[str]
_KEEP_IDLE = 10.0  # seconds that an idle connection is kept; an older one may be dead, which looks like a lost reply
_CONNECT = 30.0  # seconds in which a connection must be made
_AUTOMATIC = ("User-Agent", "Accept", "Content-Type")  # headers that aiohttp adds where the client sent none
# Headers that are not passed on: those of one hop, and those that the gateway sets itself.
_HOP = words(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade "
    "host content-length accept-encoding expect proxy-connection "
    "content-encoding "  # the body goes on as it was read
    "x-http-method-override x-http-method x-method-override"  # they would make it another request than the metered one
)
_HOP_BACK = _HOP | {"content-encoding", "set-cookie", "date", "server"}


class Upstream:
    def __init__(self, bases: Mapping[str, str], keys: Mapping[str, str], proxies: Mapping[str, str]) -> None:
        """`bases`: a URL for each vendor. `keys`: the placeholder that the command has → the real key. `proxies`: as in
        the environment."""
        self._bases = {vendor: base.rstrip("/") for vendor, base in bases.items()}
        self._keys = keys
        self._mark = next(iter(keys), "").rpartition("-")[0]  # the prefix of all placeholders of this run
        self._proxies = {vendor: _proxy(base, proxies) for vendor, base in bases.items()}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),  # `Overdue` ends what lasts too long
            cookie_jar=aiohttp.DummyCookieJar(),
            raise_for_status=False,
        )

    def request(self, vendor: str, method: str, path: str, query: str, headers: Headers, data: bytes | None) -> Any:
        base = self._bases[vendor]
        if base.endswith("/v1") and path.startswith("v1/"):
            path = path.removeprefix("v1/")
        url = f"{base}/{path}" + (f"?{self._with_keys(query)}" if query else "")
        return self._session.request(
            method,
            URL(url, encoded=True),
            headers=headers,
            skip_auto_headers=[name for name in _AUTOMATIC if name not in headers] or None,
            data=data,
            allow_redirects=False,
            proxy=self._proxies[vendor],
        )

    def headers(self, request: BaseRequest) -> tuple[Headers, bool]:
        """The client's headers, with the real keys; and True if the request has none of the run's placeholders, so
        that it brings its own login."""
        sent, hop, mark = request.headers, _HOP, self._mark
        if connection := sent.get("Connection"):
            hop = hop | {name.strip().lower() for name in connection.split(",")}
        query = request.query_string
        found: Headers = CIMultiDict()
        has_key = mark in query and self._with_keys(query) != query
        for name, text in sent.items():
            if name.lower() in hop:
                continue
            if mark in text:
                found[name] = self._with_keys(text)
                has_key = has_key or found[name] != text
            else:
                found[name] = text
        found["Accept-Encoding"] = "identity"
        return found, not has_key

    def _with_keys(self, text: str) -> str:
        for placeholder, key in self._keys.items():
            text = text.replace(placeholder, key)
        return text

    async def close(self) -> None:
        await self._session.close()


async def read_all(content: aiohttp.StreamReader) -> bytes:
    """A whole body, which is often there already."""
    return content.read_nowait() if content.is_eof() else await content.read()


def headers_for_client(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() not in _HOP_BACK}


def _proxy(url: str, proxies: Mapping[str, str]) -> str | None:
    parts = urlsplit(url)
    if proxy_bypass_environment(parts.netloc, dict(proxies)):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")
