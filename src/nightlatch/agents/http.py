"""One request to a vendor, by http.client: never repeated, and its failures told apart by what they prove."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlencode, urlsplit

from ..core import retry
from ..system import clock
from .seam import NotLaunched, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Query = Mapping[str, str | list[str]]

_REFUSALS = range(400, 500)
_OVERLOADED = (503, 529)  # in the vendor's own format: it was not begun
_LONGEST = 50_000_000  # bytes of a reply


class HttpError(Unclear):
    """The vendor answered with an error."""

    def __init__(self, status: int, message: str, later: float, own: bool) -> None:
        super().__init__(message, later)
        self.status = status
        self.own = own  # in the vendor's format: not from a proxy in between

    @property
    def proves_nothing_was_done(self) -> bool:
        return (self.status in _REFUSALS and self.status != 408) or (self.status in _OVERLOADED and self.own)


class NeverSent(Unclear):
    """There was no connection, so the vendor got nothing."""


class VendorClient:
    def __init__(self, base: str, headers: Mapping[str, str], timeout: float = 30.0) -> None:
        where = urlsplit(base)
        self._secure, self._host, self._port = where.scheme != "http", where.hostname or "", where.port
        self._path, self._headers, self._timeout = where.path.rstrip("/"), headers, timeout

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._json("GET", path + (f"?{urlencode(query, doseq=True)}" if query else ""), None)

    def post(self, path: str, body: object = None) -> Any:
        return self._json("POST", path, body)

    def launch(self, path: str, body: object) -> Any:
        """As `post`; where the failure proves that nothing was done it raises `NotLaunched`."""
        try:
            return self.post(path, body)
        except NeverSent as error:
            raise NotLaunched(str(error), 0.0) from error
        except HttpError as error:
            if not error.proves_nothing_was_done:
                raise
            raise NotLaunched(str(error), error.later if retry.http_worth_another(error.status) else None) from error

    def content(self, path: str) -> bytes:
        return self._request("GET", path, None)

    def _json(self, method: str, path: str, body: object) -> Any:
        data = self._request(method, path, None if body is None else json.dumps(body).encode())
        try:
            return json.loads(data or b"{}")
        except ValueError:
            raise Unclear(f"{self._host} answered with what is not JSON: {data[:100]!r}") from None

    def _request(self, method: str, path: str, data: bytes | None) -> bytes:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = make(self._host, self._port, timeout=self._timeout)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise NeverSent(f"{self._host} cannot be reached: {error}") from error
            headers = {"Accept": "application/json", **self._headers}
            if method == "POST":
                headers["Content-Type"] = "application/json"
            try:
                connection.request(method, self._path + path, data, headers)
                reply = connection.getresponse()
                content = reply.read(_LONGEST)
            except (OSError, http.client.HTTPException) as error:
                raise Unclear(f"{self._host} did not answer: {type(error).__name__} {error}".rstrip()) from error
        finally:
            connection.close()
        if 200 <= reply.status < 300:
            return content
        message, own = _message(content)
        raise HttpError(reply.status, f"HTTP {reply.status}{': ' if message else ''}{message}", _later(reply), own)


def _message(content: bytes) -> tuple[str, bool]:
    """What an error says, and whether it is in the format of the vendors."""
    try:
        error = json.loads(content)["error"]
        return str(error["message"])[:500], True
    except (ValueError, KeyError, TypeError):
        return "", False


def _later(reply: http.client.HTTPResponse) -> float:
    try:
        return retry.retry_after_seconds(reply.getheader("Retry-After") or "0", clock.wall())
    except (ValueError, TypeError):
        return 0.0
