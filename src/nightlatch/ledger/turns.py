"""Group commit: calls of several threads that come together are written together.

Whoever gets the turn writes all that is queued by then; the others find theirs written when the turn
comes to them. Nobody waits for company: a call that is alone is written alone.
"""

from __future__ import annotations

from _thread import allocate_lock

from ..errors import StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:

    class Generic:
        def __class_getitem__(cls, _):
            return cls

    T = None

_MOST = 256  # calls in one commit: the last of them waits for all


class Turns(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._queue: list[_Call[T]] = []
        self._turn = allocate_lock()

    def take(self, what: T) -> None:
        """Return when it is written; raises what its commit raised."""
        call = _Call(what)
        self._queue.append(call)
        with self._turn:
            while not call.done:
                self._write_queued()
        if call.error is not None:
            raise call.error

    def alone(self) -> _Alone[T]:
        """`with turns.alone():` all that was queued before is written, and nothing until this ends."""
        return _Alone(self)

    def _write_queued(self) -> None:
        calls = self._queue[:_MOST]
        del self._queue[: len(calls)]
        try:
            if calls:
                self._write([call.what for call in calls])
        except Exception as error:  # noqa: BLE001  each caller gets it, in its own thread
            for call in calls:
                call.error = error
        except BaseException:  # the writing thread alone was interrupted
            for call in calls:
                call.error = StoreUnreachable("interrupted in a commit: whether it was written is not known")
            raise
        finally:
            for call in calls:
                call.done = True


class _Call(Generic[T]):
    def __init__(self, what: T) -> None:
        self.what = what
        self.done = False
        self.error: BaseException | None = None


class _Alone(Generic[T]):
    def __init__(self, turns: Turns[T]) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        self._turns._turn.acquire()
        while self._turns._queue:
            self._turns._write_queued()

    def __exit__(self, *_: object) -> None:
        self._turns._turn.release()
