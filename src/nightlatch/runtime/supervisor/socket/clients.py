"""The connections at a run's socket. All requests that have arrived are read before any is answered, so that those
which arrived together are recorded together.

Nothing that a client does makes the supervisor wait or end: a client that does not read its replies is not read from
either, a client that hangs up is forgotten, and there are never more connections, threads or unread bytes than the
limits below.
"""

from __future__ import annotations

import os

from ....core import json_text
from ....errors import Stop
from ...shared.replies import DeferredReply, refusal
from .threads import Threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...shared.replies import Request

    Answers = Callable[[list[Request]], list[dict[str, Any] | DeferredReply]]

_LONGEST_LINE = 1 << 22  # bytes; a client that sends more than that without a line's end is cut off
_MOST_UNREAD = 1 << 26  # bytes of unfinished lines, all clients together
_MOST_CLIENTS = 512  # and never more than half of the descriptors that this process may have
_MOST_PENDING = 1000  # deferred replies of one client; at this number it is not read from until some are ready


class _Client:
    """One connection. `fd` is -1 once it is closed: the kernel may give the number to another file."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.unread = b""  # the beginning of a line
        self.unsent = b""  # replies that it has not taken yet
        self.pending = 0  # replies that threads are making
        self.ended = False  # it sends no more; it may still wait for replies

    @property
    def is_readable(self) -> bool:
        """Are requests read from it? Not before it has taken its replies."""
        return not self.unsent and not self.ended and self.pending < _MOST_PENDING


class Clients:
    """Poll `descriptors` for reading and `sending` for writing; call `serve` with all that are ready."""

    def __init__(self, listener: Any, grant: str, answers: Answers) -> None:
        self._listener, self._grant, self._answers = listener, grant, answers
        self._clients: dict[int, _Client] = {}  # by descriptor; the longest silent client is the first
        descriptors = os.sysconf("SC_OPEN_MAX")  # -1: no limit
        self._most_clients = min(_MOST_CLIENTS, descriptors // 2) if descriptors > 1 else _MOST_CLIENTS
        self._accepts = True
        self._threads = Threads()

    @property
    def descriptors(self) -> list[int]:
        reading = [fd for fd, one in self._clients.items() if one.is_readable]
        return [*((self._listener.fileno(),) if self._accepts else ()), self._threads.fd, *reading]

    @property
    def sending(self) -> list[int]:
        return [fd for fd, one in self._clients.items() if one.unsent]

    def serve(self, fds: Iterable[int]) -> None:
        """Accept connections; read all requests, then reply to them."""
        # Look up the clients first: a descriptor that is closed in this loop may be reused for a new connection.
        ready = [(fd, self._clients.get(fd)) for fd in fds]
        received: list[tuple[_Client, object, Request]] = []
        for fd, client in ready:
            if client:
                self._flush(client) if client.unsent else self._read(client, received)
            elif fd == self._threads.fd:
                for recipient, request_id, reply in self._threads.finished():
                    recipient.pending -= 1
                    self._send(recipient, request_id, reply)
        answers = self._answer([request for *_, request in received]) if received else []
        for (client, request_id, _), answer in zip(received, answers, strict=True):
            if isinstance(answer, DeferredReply):
                client.pending += 1
                self._threads.take(client, request_id, answer)
            else:
                self._send(client, request_id, answer)
        for client in [one for one in self._clients.values() if one.ended and not one.pending and not one.unsent]:
            self._drop(client)
        self._accepts = True
        if any(fd == self._listener.fileno() for fd, _ in ready):
            self._accept()

    def close(self) -> None:
        for client in tuple(self._clients.values()):
            self._drop(client)
        self._threads.close()

    def _accept(self) -> None:
        if len(self._clients) >= self._most_clients and not self._make_room():
            self._accepts = False  # not polled until the next turn: it would be ready all the time
            return
        try:
            client, _ = self._listener._accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client has hung up already
        except OSError:
            self._accepts = self._make_room()  # this process, or the machine, has no descriptor left
            return
        os.set_inheritable(client, False)
        os.set_blocking(client, False)
        self._clients[client] = _Client(client)

    def _make_room(self) -> bool:
        """Hang up on one client. Nightlatch's own clients connect again.

        It is the longest silent of the clients that have taken all their replies; if there are none, of the others. A
        client whose reply is being made is kept. Returns False if all are kept.
        """
        found = sorted((one for one in self._clients.values() if not one.pending), key=lambda one: bool(one.unsent))
        for client in found[:1]:
            self._drop(client)
        return bool(found)

    def _answer(self, requests: list[Request]) -> list[dict[str, Any] | DeferredReply]:
        try:
            return self._answers(requests)
        except (Stop, Exception) as error:  # noqa: BLE001 - whatever a command sends, its supervisor goes on
            return [refusal(error) for _ in requests]

    def _read(self, client: _Client, received: list[tuple[_Client, object, Request]]) -> None:
        if client.fd < 0:
            return  # it has hung up meanwhile
        try:
            data = os.read(client.fd, 1 << 16)  # a larger buffer would be mapped and unmapped at each read
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the client is gone, perhaps in the middle of a line
        self._clients[client.fd] = self._clients.pop(client.fd)  # to the end: it spoke last
        *lines, client.unread = (client.unread + data).split(b"\n")
        for line in lines:
            request_id = None
            try:
                request = json_text.loads(line)
                if not isinstance(request, dict) or request.pop("grant", "") != self._grant:
                    raise ValueError("every line is a JSON object whose `grant` is $NIGHTLATCH_GRANT")
                request_id = request.pop("id", None)
                if isinstance(request_id, dict | list):
                    request_id = None
                    raise ValueError("`id` is a number or a string")
            except (ValueError, RecursionError) as error:
                self._send(client, request_id, refusal(error))
            else:
                received.append((client, request_id, request))
        client.ended = not data
        # A line that began in this read is not too long, so only one that began earlier is checked.
        if len(client.unread) > len(data) and self._is_too_much(len(client.unread)):
            self._drop(client)

    def _is_too_much(self, unread: int) -> bool:
        return unread > _LONGEST_LINE or sum(len(one.unread) for one in self._clients.values()) > _MOST_UNREAD

    def _send(self, client: _Client, request_id: object, answer: dict[str, Any]) -> None:
        if client.fd < 0:
            return  # it has hung up
        sends_already = bool(client.unsent)
        client.unsent += (
            json_text.dumps(answer if request_id is None else {"id": request_id, **answer}).encode() + b"\n"
        )
        if not sends_already:
            self._flush(client)

    def _flush(self, client: _Client) -> None:
        """Send as much as the client takes now; the rest follows when it has room."""
        try:
            while client.unsent:
                client.unsent = client.unsent[os.write(client.fd, client.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client.fd >= 0:
            del self._clients[client.fd]
            os.close(client.fd)
            client.fd, client.unread, client.unsent = -1, b"", b""
