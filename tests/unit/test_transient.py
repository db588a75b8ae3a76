"""What may pass, what proves that nothing was sent, and what a server asks for."""

from __future__ import annotations

import errno
import socket
import urllib.error
from email.message import Message
from email.utils import formatdate

import pytest

from nightlatch.core import transient


class Answered(Exception):
    def __init__(self, **facts: object) -> None:
        self.__dict__ |= facts


class Response:
    def __init__(self, status_code: int, after: str = "") -> None:
        self.status_code, self.headers = status_code, {"Retry-After": after} if after else {}


TransportError = type("TransportError", (Exception,), {})


def raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def raised_after(error: Exception, before: BaseException) -> Exception:
    error.__context__ = before
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (OSError(errno.ENETUNREACH, "away"), True),
        (OSError(errno.ENOSPC, "full"), False),
        (ValueError("no"), False),
        (urllib.error.URLError(ConnectionRefusedError()), True),
        (urllib.error.HTTPError("u", 503, "later", Message(), None), True),
        (urllib.error.HTTPError("u", 404, "gone", Message(), None), False),
        (Answered(response=Response(429)), True),
        (Answered(status=504), True),
        (Answered(status_code=401), False),
        (Answered(code=True), False),
        (TransportError(), True),
        (raised_from(ValueError(), TimeoutError()), True),
        (raised_after(ValueError(), TimeoutError()), False),
    ],
    ids=repr,
)
def test_what_may_pass(error, passes):
    assert transient.transient(error) is passes


def test_only_a_connection_that_never_came_about_proves_that_nothing_was_sent():
    assert transient.never_sent(urllib.error.URLError(ConnectionRefusedError()))
    assert transient.never_sent(raised_from(ValueError(), socket.gaierror()))
    assert not transient.never_sent(ConnectionResetError())
    assert not transient.never_sent(TimeoutError())
    # A library that has tried twice: the first try may have acted.
    assert not transient.never_sent(raised_after(ConnectionResetError(), ConnectionRefusedError()))


def test_retry_after_is_a_number_or_a_date():
    now = 1_800_000_000.0
    date = formatdate(now + 90, usegmt=True)
    assert transient.retry_after(Answered(response=Response(429, "30")), now) == 30
    assert transient.retry_after(Answered(response=Response(429, date)), now) == 90
    assert transient.retry_after(Answered(response=Response(429, formatdate(now - 90, usegmt=True))), now) == 0
    assert transient.retry_after(Answered(response=Response(429, "soon")), now) == 0
    assert transient.retry_after(ValueError(), now) == 0
