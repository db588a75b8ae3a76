"""Requests to the run's supervisor, from inside a run. Each thread keeps one connection open."""

from __future__ import annotations

import os
from _thread import _local

from ...core import json_text
from ...errors import Error, UsageError
from ...system import light
from .replies import as_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_thread = _local()


def send(**request: Any) -> dict[str, Any]:
    """Send one request and return the reply; raises the error that the supervisor replies with."""
    connection: Connection | None = getattr(_thread, "connection", None)
    if connection is None or connection.made_for != peer() or connection.is_cut:
        connection = _thread.connection = Connection()
    try:
        reply = connection.ask(request)
    except BaseException as error:  # even a signal handler's: the late reply must not answer the next request
        _thread.connection = None
        if isinstance(error, OSError):
            raise no_reply(error) from error
        raise
    return checked(reply)


def check_may_act() -> None:
    """Inside a run: raise `NotAllowed` if what it does to the outside world has to wait for an approval."""
    if "NIGHTLATCH_SOCKET" in os.environ:
        send(do="may-act")


def peer() -> tuple[str, str, int]:
    """The supervisor's socket, the grant, and our pid: a forked process needs its own connection."""
    return os.environ.get("NIGHTLATCH_SOCKET", ""), os.environ.get("NIGHTLATCH_GRANT", ""), os.getpid()


def envelope() -> dict[str, str]:
    """What every request carries: the grant, and the batch item that this process works on."""
    path, grant, _ = peer()
    if not path:
        raise UsageError("this works only inside a run: nightlatch run NAME -- CMD …")
    for outer in os.environ.get("NIGHTLATCH_LINEAGE", "").split():
        if outer.startswith(os.path.basename(path)):
            grant = outer  # under a nested `once` or `lock`: the socket knows only the run's own grant
    item = os.environ.get("NIGHTLATCH_STEP")
    return {"grant": grant, "item": item} if item else {"grant": grant}


def encoded(envelope: dict[str, str], request: dict[str, Any]) -> bytes:
    return json_text.dumps({**envelope, **request}).encode() + b"\n"


def checked(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply; raises the error if it carries one."""
    if reply.get("ok"):
        return reply
    raise as_error(reply)


def no_reply(error: OSError) -> Error:
    return Error(f"the run's supervisor does not answer: {error.strerror or error}")


class Connection:
    """A connection to the supervisor, for one thread at a time."""

    def __init__(self) -> None:
        sockets = light.sockets
        self.made_for = peer()
        self._envelope = envelope()
        self._no_wait = sockets.MSG_DONTWAIT
        self._socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            self._socket.connect(self.made_for[0])
        except OSError as error:
            self._socket.close()
            raise no_reply(error) from error

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._socket.sendall(encoded(self._envelope, request))
        text = self._socket.recv(1 << 16)
        while text[-1:] != b"\n":
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError("it hung up")
            text += more
        return dict(json_text.loads(text))

    @property
    def is_cut(self) -> bool:
        """Has the supervisor hung up, as it does on idle connections when there are too many? Or is there a reply to a
        request whose sender was interrupted?"""
        try:
            self._socket.recv(1, self._no_wait)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def __del__(self) -> None:
        opened = getattr(self, "_socket", None)
        if opened is not None:
            opened.close()
