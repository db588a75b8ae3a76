"""How Nightlatch commands below a supervisor find a store with a password: they ask the supervisor, so that no
environment contains the password."""

from __future__ import annotations

import os
import select
from _thread import allocate_lock, start_new_thread

from ....database import dsn
from ....store import url, via_supervisor
from ....system.light import sockets
from ...shared.replies import one_by_one
from ..socket.server import Socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def answer(where: str) -> dict[str, Any]:
    """The reply for a command that may have the password."""
    return {"url": where} | ({"password": os.environ[dsn.PASSWORD]} if dsn.needs_environment(where) else {})


class Handle:
    """Answers, from a thread, which store the supervisor uses. `environment` names this socket for the command."""

    def __init__(self, where: str, grant: str) -> None:
        """`where`: the store's URL."""
        self._where = where
        self._closed, self._thread_ended = False, allocate_lock()
        self._socket = Socket(grant, one_by_one(self._answer))
        self.environment = {url.ENV: f"{via_supervisor.PREFIX}{self._socket.path}"}
        self._thread_ended.acquire()
        start_new_thread(self._serve, ())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
            try:
                connection.connect(self._socket.path)  # wakes the thread
            except OSError:
                pass  # the socket's file was removed: the thread ends after its poll
            connection.close()
            self._thread_ended.acquire()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("do") != "store":
            raise ValueError(
                'under `nightlatch lock` and `nightlatch once` the socket answers only requests with "do": "store"'
            )
        return answer(self._where)

    def _serve(self) -> None:
        while not self._closed:
            poll = select.poll()
            for fd in self._socket.descriptors:
                poll.register(fd, select.POLLIN)
            for fd in self._socket.sending:
                poll.register(fd, select.POLLOUT)
            self._socket.serve([fd for fd, _ in poll.poll(1000)])
        self._socket.close()
        self._thread_ended.release()
