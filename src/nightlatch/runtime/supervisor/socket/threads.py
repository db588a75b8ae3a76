"""Threads for replies that take a while; a limited number at a time, the rest wait."""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

from ...shared.replies import refusal, reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...shared.replies import DeferredReply

_MOST = 128


class Threads:
    """Each reply is for a client. `fd` is readable when some are ready."""

    def __init__(self) -> None:
        self.fd, self._wake = os.pipe()  # now: later there may be no descriptor left
        os.set_blocking(self.fd, False)
        self._mutex = allocate_lock()
        self._todo: list[tuple[Any, object, DeferredReply]] = []
        self._done: list[tuple[Any, object, dict[str, Any]]] = []
        self._running, self._closed = 0, False

    def take(self, client: object, number: object, later: DeferredReply) -> None:
        with self._mutex:
            self._todo.append((client, number, later))
            if self._running == _MOST:
                return
            try:
                start_new_thread(self._work, ())
                self._running += 1
            except RuntimeError as error:  # the system has none left
                if not self._running:
                    self._todo.pop()
                    self._hand_over(client, number, refusal(OSError(str(error))))

    def made(self) -> list[tuple[Any, object, dict[str, Any]]]:
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
                client, number, later = self._todo.pop(0)
            answer = reply(lambda _, make=later.make: make(), {})  # type: ignore[misc]
            with self._mutex:
                self._hand_over(client, number, answer)

    def _hand_over(self, client: object, number: object, answer: dict[str, Any]) -> None:
        if not self._closed:
            if not self._done:
                os.write(self._wake, b".")  # one byte until they are fetched: a full pipe would stop us
            self._done.append((client, number, answer))
