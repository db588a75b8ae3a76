"""The connections at a run's socket. All that has come in is read before any of it is answered, so that what came
together is written together.

Nothing that a client does makes the supervisor wait or end: one that does not read its answers is not read from
either, one that hangs up is forgotten, and there are never more connections, threads or unread bytes than the
limits below.
"""

from __future__ import annotations

import os

from ....errors import Stop
from ....system import light
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
_MOST_PENDING = 1000  # answers of one client that take a while; until it has some of them, it is not read from


class _Client:
    """One connection. `fd` is -1 once it is closed: the number may be another's by then."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.unread = b""  # the beginning of a line
        self.unsent = b""  # answers that it has not taken yet
        self.pending = 0  # answers that are being made
        self.ended = False  # it sends no more; it may still wait for replies

    @property
    def speaks(self) -> bool:
        """May it be read from? It has to take its replies first."""
        return not self.unsent and not self.ended and self.pending < _MOST_PENDING


class Clients:
    """`descriptors` are to be polled for reading, `sending` for writing; `serve` is called with all that are ready."""

    def __init__(self, listener: Any, grant: str, answers: Answers) -> None:
        self._listener, self._grant, self._answers = listener, grant, answers
        self._clients: dict[int, _Client] = {}  # by descriptor; the longest silent client is the first
        descriptors = os.sysconf("SC_OPEN_MAX")  # -1: no limit
        self._most = min(_MOST_CLIENTS, descriptors // 2) if descriptors > 1 else _MOST_CLIENTS
        self._accepts = True
        self._threads = Threads()

    @property
    def descriptors(self) -> list[int]:
        reading = [fd for fd, one in self._clients.items() if one.speaks]
        return [*((self._listener.fileno(),) if self._accepts else ()), self._threads.fd, *reading]

    @property
    def sending(self) -> list[int]:
        return [fd for fd, one in self._clients.items() if one.unsent]

    def serve(self, fds: Iterable[int]) -> None:
        """Accept connections; read all requests, then reply to them."""
        # Look up the clients first: a descriptor that is closed on the way may be reused for the next one.
        ready = [(fd, self._clients.get(fd)) for fd in fds]
        received: list[tuple[_Client, object, Request]] = []
        for fd, client in ready:
            if client:
                self._flush(client) if client.unsent else self._read(client, received)
            elif fd == self._threads.fd:
                for waiting, number, made in self._threads.made():
                    waiting.pending -= 1
                    self._send(waiting, number, made)
        answers = self._answered([request for *_, request in received]) if received else []
        for (client, number, _), answer in zip(received, answers, strict=True):
            if isinstance(answer, DeferredReply):
                client.pending += 1
                self._threads.take(client, number, answer)
            else:
                self._send(client, number, answer)
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
        if len(self._clients) >= self._most and not self._make_room():
            self._accepts = False  # until the next turn of the loop: the listener would be ready all the time
            return
        try:
            client, _ = self._listener._accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it has hung up already
        except OSError:
            self._accepts = self._make_room()  # this process, or the machine, has no descriptor left
            return
        os.set_inheritable(client, False)
        os.set_blocking(client, False)
        self._clients[client] = _Client(client)

    def _make_room(self) -> bool:
        """Hang up on the client that was silent for longest (ours connects again), or that does not read. One whose
        answer is being made stays."""
        found = sorted((one for one in self._clients.values() if not one.pending), key=lambda one: bool(one.unsent))
        for one in found[:1]:
            self._drop(one)
        return bool(found)

    def _answered(self, requests: list[Request]) -> list[dict[str, Any] | DeferredReply]:
        try:
            return self._answers(requests)
        except (Stop, Exception) as error:  # noqa: BLE001 - whatever a command says, its supervisor goes on
            return [refusal(error) for _ in requests]

    def _read(self, client: _Client, received: list[tuple[_Client, object, Request]]) -> None:
        if client.fd < 0:
            return  # it has hung up meanwhile
        try:
            data = os.read(client.fd, 1 << 16)  # more would be mapped and unmapped each time
        except BlockingIOError:
            return
        except OSError:
            data = b""  # it is gone in the middle of a line
        self._clients[client.fd] = self._clients.pop(client.fd)  # now the most recent one
        *lines, client.unread = (client.unread + data).split(b"\n")
        for line in lines:
            number = None
            try:
                request = light.loads(line)
                if not isinstance(request, dict) or request.pop("grant", "") != self._grant:
                    raise ValueError("every line is a JSON object whose `grant` is $NIGHTLATCH_GRANT")
                number = request.pop("id", None)
                if isinstance(number, dict | list):
                    number = None
                    raise ValueError("`id` is a number or a string")
            except (ValueError, RecursionError) as error:
                self._send(client, number, refusal(error))
            else:
                received.append((client, number, request))
        client.ended = not data
        if len(client.unread) > len(data) and self._is_too_much(len(client.unread)):
            self._drop(client)

    def _is_too_much(self, unread: int) -> bool:
        return unread > _LONGEST_LINE or sum(len(one.unread) for one in self._clients.values()) > _MOST_UNREAD

    def _send(self, client: _Client, number: object, answer: dict[str, Any]) -> None:
        if client.fd < 0:
            return  # it has hung up
        waiting = client.unsent
        client.unsent += light.dumps(answer if number is None else {"id": number, **answer}).encode() + b"\n"
        if not waiting:
            self._flush(client)

    def _flush(self, client: _Client) -> None:
        """As much as it takes now; the rest when it has room."""
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
