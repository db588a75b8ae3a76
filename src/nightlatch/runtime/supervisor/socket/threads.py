"""Threads for replies that take a while; a limited number at a time, the rest wait."""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

from ...shared.replies import DeferredReply, refusal, reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MOST_THREADS = 128


class Threads:
    """Makes deferred replies. `fd` is readable when some are finished."""

    def __init__(self) -> None:
        self.fd, self._wake = os.pipe()  # opened now: later there may be no descriptor left
        os.set_blocking(self.fd, False)
        self._mutex = allocate_lock()
        self._todo: list[tuple[Any, object, DeferredReply]] = []
        self._done: list[tuple[Any, object, dict[str, Any]]] = []
        self._running, self._closed = 0, False

    def take(self, client: object, request_id: object, deferred: DeferredReply) -> None:
        with self._mutex:
            self._todo.append((client, request_id, deferred))
            if self._running == _MOST_THREADS:
                return
            try:
                start_new_thread(self._work, ())
                self._running += 1
            except RuntimeError as error:  # no thread can be started; a running one takes it, if there is any
                if not self._running:
                    self._todo.pop()
                    self._hand_over(client, request_id, refusal(OSError(str(error))))

    def finished(self) -> list[tuple[Any, object, dict[str, Any]]]:
        """(client, request id, reply) for each reply that was finished since the last call."""
        try:
            os.read(self.fd, 1 << 16)
        except BlockingIOError:
            pass
        with self._mutex:
            done, self._done = self._done, []
        return done

    def close(self) -> None:
        """Stop. Replies that are not ready are dropped."""
        with self._mutex:
            self._closed = True
            self._todo.clear()
            os.close(self.fd)
            os.close(self._wake)

    def _work(self) -> None:
        while True:
            with self._mutex:
                if not self._todo:
                    self._running -= 1
                    return
                client, request_id, deferred = self._todo.pop(0)
            answer = reply(lambda _, make=deferred.make: make(), {})  # type: ignore[misc]
            with self._mutex:
                self._hand_over(client, request_id, answer)

    def _hand_over(self, client: object, request_id: object, answer: dict[str, Any]) -> None:
        if not self._closed:
            if not self._done:
                os.write(self._wake, b".")  # one byte until `finished` reads it: a full pipe would block us
            self._done.append((client, request_id, answer))
