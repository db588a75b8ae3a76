"""Group commit: calls of several threads that come together are written together.

Whoever gets the turn writes all that is queued by then; the others find theirs written when the turn
comes to them. Nobody waits for company: a call that is alone is written alone.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident

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

_MOST = 256  # calls in one commit: the first of them waits for all


class Turns(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._queue: list[_Call[T]] = []
        self._turn = allocate_lock()
        self._gathered: dict[int, list[T]] = {}  # by thread

    def take(self, *whats: T) -> None:
        """Return when they are written, in one commit; raises what that raised."""
        gathered = self._gathered.get(get_ident())
        if gathered is not None:
            gathered += whats
            return
        call = _Call(whats)
        self._queue.append(call)
        with self._turn:
            while not call.done:
                self._write_queued()
        if call.error is not None:
            raise call.error

    def together(self) -> _Together[T]:
        """`with turns.together():` what this thread takes inside is written when it ends, in one commit."""
        return _Together(self)

    def alone(self) -> _Alone[T]:
        """`with turns.alone():` all that was queued before is written, and nothing until this ends."""
        return _Alone(self)

    def _write_queued(self) -> None:
        calls = self._queue[:_MOST]
        del self._queue[: len(calls)]
        try:
            if calls:
                self._write([what for call in calls for what in call.whats])
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
    def __init__(self, whats: Sequence[T]) -> None:
        self.whats = whats
        self.done = False
        self.error: Exception | None = None


class _Together(Generic[T]):
    def __init__(self, turns: Turns[T]) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        self._turns._gathered.setdefault(get_ident(), [])

    def __exit__(self, *_: object) -> None:
        # Also when the work inside failed: what was reported before that has happened.
        gathered = self._turns._gathered.pop(get_ident(), None)
        if gathered:
            self._turns.take(*gathered)


class _Alone(Generic[T]):
    def __init__(self, turns: Turns[T]) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        self._turns._turn.acquire()
        while self._turns._queue:
            self._turns._write_queued()

    def __exit__(self, *_: object) -> None:
        self._turns._turn.release()
