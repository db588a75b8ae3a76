"""Which exception is worth another try, and which proves that an effect was not done.

The error classes of libraries are not imported here. They are recognised by name, errno, the HTTP status they carry,
and what they were raised from.
"""

from __future__ import annotations

import errno

from .retry import retry_after_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STATUSES = frozenset({408, 425, 429, 502, 503, 504})  # HTTP statuses of transient failures

_NETWORK = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETRESET",
        "ENETUNREACH", "EPIPE", "ETIMEDOUT", "EAGAIN",
    )
    if hasattr(errno, name)
)  # fmt: skip
# requests, urllib3, httpx, httpcore, aiohttp, and the SDKs built on them; `gaierror`: a name that did not resolve.
_NAMES = frozenset(
    {
        "APIConnectionError", "ClientConnectionError", "ConnectionError", "IncompleteRead", "NewConnectionError",
        "ProtocolError", "RemoteDisconnected", "ServerDisconnectedError", "Timeout", "TimeoutError",
        "TimeoutException", "TransportError", "gaierror",
    }
)  # fmt: skip
_MOST_CAUSES = 8


def transient(error: BaseException) -> bool:
    """May the same call succeed a little later? Every error that is not known to be transient counts as permanent."""
    code = status(error)
    if code is not None:
        return code in STATUSES
    return any(_is_transient(one) for one in _causes(error))


def never_sent(error: BaseException) -> bool:
    """Does the error prove that no request was sent, because no connection was made?"""
    return any(isinstance(one, ConnectionRefusedError) or _named(one, {"gaierror"}) for one in _causes(error))


def status(error: BaseException) -> int | None:
    """The HTTP status that the error carries, under any of the names that libraries use; None if it has none."""
    response = getattr(error, "response", None)
    for carrier, name in ((response, "status_code"), (response, "status"), *((error, name) for name in _STATUS_NAMES)):
        code = getattr(carrier, name, None)
        if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600:
            return code
    return None


_STATUS_NAMES = ("status_code", "status", "code")


def retry_after(error: BaseException, now: float) -> float:
    """The seconds in the server's Retry-After header, a number or a date; 0 if there is none."""
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    get = getattr(headers, "get", None)
    text = str(get("Retry-After") or get("retry-after") or "").strip() if get else ""
    if not text:
        return 0.0
    try:
        return retry_after_seconds(text, now)
    except ValueError:
        return 0.0


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _NETWORK:
        return True
    return isinstance(error, ConnectionError | TimeoutError) or _named(error, _NAMES)


def _named(error: BaseException, names: set[str] | frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those it was raised from; never one that merely happened before it (`__context__`)."""
    queue: list[object] = [error]
    for _ in range(_MOST_CAUSES):
        if not queue:
            return
        one = queue.pop(0)
        if isinstance(one, BaseException):
            yield one
            queue += [one.__cause__, getattr(one, "reason", None), *one.args[:1]]
