"""Checks of every request: its host, the unguessable path, the session, and for a decision the form's token and origin.
And the headers of every reply."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from .access import Access, Session
from .connections import OpenConnections

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE = "nightlatch"
METRICS = "/metrics"
BODY_SIZE = 64 << 10  # bytes
BODY_WITHIN = 10.0  # seconds in which a form must arrive
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # No other origin, not even another port, sees the path. With `no-referrer`, our forms' origin would be `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FORM = "nightlatch.form"


class Guard:
    def __init__(self, access: Access, *, url: str = "", read_only: bool = False) -> None:
        """`url`: where a proxy shows the pages, as https://…"""
        self._access, self._url, self._read_only = access, url.rstrip("/"), read_only
        self.port = 0
        self.connections: OpenConnections | None = None

    @property
    def origins(self) -> set[str]:
        """The origins that our forms may be sent from."""
        return {f"http://{name}:{self.port}" for name in LOOPBACK} | ({self._url} if self._url else set())

    @property
    def hosts(self) -> set[str]:
        return {f"{name}:{self.port}" for name in LOOPBACK} | ({urlsplit(self._url).netloc} if self._url else set())

    @property
    def secure_hosts(self) -> set[str]:
        """Names under which a proxy serves the pages by https."""
        return {urlsplit(self._url).netloc} if self._url else set()

    def may_change(self, session: Session) -> bool:
        return not self._read_only and not session.read_only

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = self.connections.of(request.transport) if self.connections else None
        try:
            response = await self._check(request, handler)
        finally:
            if connection:
                connection.next_request()
        return response

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_host(request)
            if request.path == METRICS:
                self._check_token(request)
                request["session"] = None
                return _with_headers(await handler(request))
            self._check_path(request)
            session = self._session(request)
            if session is None and not _needs_no_session(request):
                raise web.HTTPForbidden(text="These pages need a session. Open them with: nightlatch open\n")
            request["session"] = session
            if request.method == "POST":
                assert session
                await self._check_form(request, session)
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        return _with_headers(response)

    def _session(self, request: web.Request) -> Session | None:
        """The session of the first valid cookie with our name. A server at another port may have set a cookie of the
        same name for every path: then a browser sends both, ours first."""
        for part in request.headers.get("Cookie", "").split(";"):
            name, _, token = part.strip().partition("=")
            if name == COOKIE and (session := self._access.session(token)):
                return session
        return None

    def _check_host(self, request: web.Request) -> None:
        absolute = not request.raw_path.startswith("/")  # an absolute URL names another host
        if absolute or request.headers.get("Host", "").lower() not in self.hosts:
            raise web.HTTPMisdirectedRequest(
                text="The pages are not served under this name. Open them with: nightlatch open\n"
            )

    def _check_path(self, request: web.Request) -> None:
        first = request.path.lstrip("/").partition("/")[0]
        if not hmac.compare_digest(first.encode(), self._access.prefix.encode()):
            raise web.HTTPNotFound(text="There is nothing here. Open the pages with: nightlatch open\n")

    def _check_token(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._access.reads_metrics(token.strip()):
            raise web.HTTPUnauthorized(
                text="The metrics need a token: nightlatch open --metrics\n", headers={"WWW-Authenticate": "Bearer"}
            )

    async def _check_form(self, request: web.Request, session: Session) -> None:
        if request.headers.get("Origin", "") not in self.origins:
            raise web.HTTPForbidden(text="This form does not come from these pages.\n")
        try:
            async with asyncio.timeout(BODY_WITHIN):
                form = await request.post()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="The form did not arrive.\n") from None
        except (ValueError, LookupError, AssertionError):
            raise web.HTTPBadRequest(text="This form cannot be read.\n") from None
        given = form.get("csrf", "")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), session.csrf.encode()):
            raise web.HTTPForbidden(text="This form does not belong to your session: load the page again.\n")
        if not self.may_change(session):
            raise web.HTTPForbidden(text="This session is read-only.\n")
        request[FORM] = {name: text for name, text in form.items() if isinstance(text, str)}


def at_own_port(port: int) -> Any:
    """The middleware of the port that serves only the metrics, without a token: it accepts only loopback host names."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "").lower() not in {f"{name}:{port}" for name in LOOPBACK}:
            raise web.HTTPMisdirectedRequest(text="Nothing is served under this name.\n")
        return _with_headers(await handler(request))

    return middleware


def _with_headers(response: web.StreamResponse) -> web.StreamResponse:
    if not response.prepared:
        for name, text in HEADERS.items():
            response.headers.setdefault(name, text)
    return response


def _needs_no_session(request: web.Request) -> bool:
    """May the path be read without a session? Only the login address of `nightlatch open`, and static files."""
    parts = request.path.lstrip("/").split("/")
    return request.method == "GET" and len(parts) == 3 and parts[1] in ("open", "static")
