"""Which exception is worth another try, and what one says about an effect: judged by class, errno and HTTP status.

Libraries have error classes of their own, which nothing here imports: they are known by their names, by the
status they carry, and by what they were raised from.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STATUSES = frozenset({408, 425, 429, 502, 503, 504})

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
_DEEPEST = 8


def transient(error: BaseException) -> bool:
    """May the same call work a little later? What is not known to be of that kind is permanent."""
    code = status(error)
    if code is not None:
        return code in STATUSES
    return any(_passing(one) for one in _behind(error))


def never_sent(error: BaseException) -> bool:
    """Does it prove that nothing was asked of anybody: no connection came about?"""
    return any(isinstance(one, ConnectionRefusedError) or _named(one, {"gaierror"}) for one in _behind(error))


def status(error: BaseException) -> int | None:
    """The HTTP status that the error carries, under one of the names that libraries have for it."""
    response = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (response, "status"), *((error, name) for name in _STATUS)):
        code = getattr(holder, name, None)
        if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600:
            return code
    return None


_STATUS = ("status_code", "status", "code")


def retry_after(error: BaseException, now: float) -> float:
    """Seconds for which the server asked to be left alone (Retry-After, as a number or a date); 0 if it did not."""
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    get = getattr(headers, "get", None)
    text = str(get("Retry-After") or get("retry-after") or "").strip() if get else ""
    if not text:
        return 0.0
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0.0)
    except ValueError:
        return 0.0


def _passing(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _NETWORK:
        return True
    return isinstance(error, ConnectionError | TimeoutError) or _named(error, _NAMES)


def _named(error: BaseException, names: set[str] | frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error, and those it was made from: never what merely happened before it (`__context__`)."""
    following: list[object] = [error]
    for _ in range(_DEEPEST):
        if not following:
            return
        one = following.pop(0)
        if isinstance(one, BaseException):
            yield one
            following += [one.__cause__, getattr(one, "reason", None), *one.args[:1]]
