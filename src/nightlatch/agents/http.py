"""One request to a vendor over HTTP/1.1: never repeated or redirected. Errors say whether the vendor may have acted.

One deadline covers the whole exchange, so a reply that trickles in cannot extend it. Why not an SDK: they take seconds
to import, and repeat launches. Why not http.client: it loads the email package, and its timeout restarts with every
byte.
"""

from __future__ import annotations

from ..core import json_text, retry
from ..errors import UsageError
from ..system import clock, light
from .seam import Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_CLIENT_ERRORS = range(400, 500)
_OVERLOADED = (503, 529)  # in the vendor's own format these mean that the work was not begun
_MAX_REPLY = 50_000_000  # bytes of a reply
_MAX_HEAD = 100_000  # bytes of its status line and headers
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


class HttpError(Unclear):
    """The vendor answered with an error."""

    def __init__(self, status: int, message: str, later: float, from_vendor: bool) -> None:
        super().__init__(message, later)
        self.status = status
        self.from_vendor = from_vendor  # its body has the vendor's format, so it is not a proxy's
        self.is_permanent = not retry.http_worth_another(status)

    @property
    def proves_nothing_was_done(self) -> bool:
        return (self.status in _CLIENT_ERRORS and self.status != 408) or (
            self.status in _OVERLOADED and self.from_vendor
        )


class NeverSent(Unclear):
    """There was no connection, so the vendor received nothing."""


def quoted(text: str) -> str:
    """Escaped as one segment of a path or query, so that a handle cannot address anything else."""
    if text in (".", ".."):
        return text.replace(".", "%2E")
    return "".join(char if char in _UNRESERVED else "".join(f"%{b:02X}" for b in char.encode()) for char in text)


class VendorClient:
    def __init__(self, base: str, headers: Mapping[str, str], timeout: float = 30.0) -> None:
        scheme, _, rest = base.partition("://")
        netloc, slash, path = rest.partition("/")
        host, colon, port = netloc.rpartition(":") if netloc.rpartition("]")[2].count(":") else (netloc, "", "")
        if scheme not in ("http", "https") or not host or (colon and not port.isdecimal()) or "@" in netloc:
            raise UsageError(f"{base!r} is not the address of an API: write it as in https://api.example.com/v1")
        self._secure, self._netloc, self._host = scheme == "https", netloc, host.strip("[]")
        self._port = int(port) if port else 443 if self._secure else 80
        self._path, self._headers, self._timeout = (slash + path).rstrip("/"), headers, timeout
        for name, text in headers.items():
            if not text.isprintable() or not text.isascii():
                raise UsageError(f"the key for {host} cannot be sent as {name}: it is not plain ASCII text")

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        encoded = "&".join(f"{quoted(name)}={quoted(text)}" for name, text in (query or {}).items())
        return self._json("GET", path + ("?" + encoded if encoded else ""), None)

    def post(self, path: str, body: object = None) -> Any:
        return self._json("POST", path, body)

    def launch(self, path: str, body: object) -> Any:
        """As `post`; raises `NotLaunched` if the failure proves that nothing was done."""
        try:
            return self.post(path, body)
        except NeverSent as error:
            raise error.as_not_launched() from error
        except HttpError as error:
            if not error.proves_nothing_was_done:
                raise
            raise error.as_not_launched() from error

    def launch_for_handle(self, path: str, body: object) -> str:
        """As `launch`; returns the `id` of the reply, which is the handle."""
        handle = self.launch(path, body).get("id")
        if not isinstance(handle, str) or not handle:
            raise Unclear(f"{self._host} accepted the launch and returned no id")
        return handle

    def content(self, path: str) -> bytes:
        return self._request("GET", path, None)

    def _json(self, method: str, path: str, body: object) -> Any:
        data = self._request(method, path, None if body is None else json_text.dumps(body).encode())
        try:
            found = json_text.loads(data or b"{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unclear(f"{self._host} answered, but not with a JSON object: {data[:100]!r}")
        return found

    def _request(self, method: str, path: str, data: bytes | None) -> bytes:
        deadline = clock.now() + self._timeout
        try:
            connection = self._connect(deadline)
        except OSError as error:
            raise NeverSent(f"{self._host} cannot be reached: {error}") from error
        headers = {"Host": self._netloc, "Accept": "application/json", "Accept-Encoding": "identity", **self._headers}
        if method == "POST":
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(data or b""))}
        lines = [f"{method} {self._path}{path} HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        try:
            connection.sendall("\r\n".join((*lines, "", "")).encode() + (data or b""))
            status, reply_headers, content = _reply(_ReplyReader(connection, deadline))
        except (OSError, ValueError) as error:
            raise Unclear(f"{self._host} did not answer: {type(error).__name__} {error}".rstrip()) from error
        finally:
            connection.close()
        if 200 <= status < 300:
            return content
        message, from_vendor = _message(content)
        if 300 <= status < 400:
            message = "it points to another address, where your key is not sent"
        raise HttpError(
            status, f"HTTP {status}{': ' if message else ''}{message}", _retry_after(reply_headers), from_vendor
        )

    def _connect(self, deadline: float) -> Any:
        sockets = light.sockets
        host = self._host.encode("ascii" if self._host.isascii() else "idna")
        failure: OSError | None = None
        for family, kind, protocol, _, address in sockets.getaddrinfo(host, self._port, 0, sockets.SOCK_STREAM):
            connection = self._socket(family, kind, protocol)
            connection.settimeout(max(deadline - clock.now(), 0.001))
            try:
                connection.connect(address)
                if not self._secure:
                    return connection
                import ssl

                return ssl.create_default_context().wrap_socket(connection, server_hostname=self._host)
            except OSError as error:
                connection.close()
                failure = error
        raise failure or OSError(f"{self._host} has no address")

    def _socket(self, *kind: int) -> Any:
        if not self._secure:
            return light.sockets.socket(*kind)
        import socket

        return socket.socket(*kind)


class _ReplyReader:
    """Reads the bytes of a reply, until a deadline."""

    def __init__(self, connection: Any, deadline: float) -> None:
        self._connection, self._until, self._rest = connection, deadline, b""

    def next(self) -> bytes:
        """The next bytes; b"" at the end."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        left = self._until - clock.now()
        if left <= 0:
            raise TimeoutError("the whole reply did not come in time")
        self._connection.settimeout(left)
        return bytes(self._connection.recv(1 << 16))

    def before(self, end: bytes, most: int) -> bytes:
        """The bytes before `end`."""
        found = b""
        while end not in found:
            more = self.next()
            if not more or len(found) > most:
                raise ValueError("its reply was cut off, or is not HTTP")
            found += more
        found, _, self._rest = found.partition(end)
        return found

    def exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            more = self.next()
            if not more:
                raise ValueError("its reply was cut off")
            yield more[:size]
            self._rest, size = more[size:], size - len(more)

    def all(self) -> Iterator[bytes]:
        while more := self.next():
            yield more

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.before(b"\r\n", 1000).partition(b";")[0], 16):
            yield from self.exactly(size)
            self.before(b"\r\n", 2)


def _reply(received: _ReplyReader) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, content)"""
    status = 100
    while 100 <= status < 200:  # an interim reply: the real one follows
        first, *lines = received.before(b"\r\n\r\n", _MAX_HEAD).decode("latin-1").split("\r\n")
        status = int(first.split(" ", 2)[1]) if first.startswith("HTTP/1.") and " " in first else -1
        if status < 100:
            raise ValueError("its reply is not HTTP")
    headers = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts = received.chunks()
    elif "content-length" in headers or status in (204, 304):
        parts = received.exactly(int(headers.get("content-length") or 0))
    else:
        parts = received.all()
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > _MAX_REPLY:
            raise ValueError(f"its reply is longer than {_MAX_REPLY:,} bytes")
    return status, headers, bytes(content)


def _message(content: bytes) -> tuple[str, bool]:
    """The message of an error, and whether it is in the vendors' format."""
    try:
        error = json_text.loads(content)["error"]
        return str(error["message"])[:500], True
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", False


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return retry.retry_after_seconds(headers.get("retry-after") or "0", clock.wall())
    except (ValueError, TypeError, OverflowError):
        return 0.0
