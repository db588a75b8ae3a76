"""Group commit: calls of several threads that come together are written together.

The thread that gets the turn writes all that is queued by then; the others find theirs written when the turn
comes to them. No call waits for others to join: one that is alone is written alone.
"""

from __future__ import annotations

from _thread import allocate_lock

from ..core.value import Generic, T
from ..errors import StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST = 256  # calls in one commit: the first of them waits for all


class GroupCommit(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._mutex = allocate_lock()  # for the two fields below; never held while writing
        self._queue: list[_QueuedWrites[T]] = []
        self._taken = False  # a thread is writing

    def take(self, *whats: T) -> None:
        """Return when they are written, in one commit; raises what that raised."""
        with self._mutex:
            alone = not self._taken
            self._taken = True
        if alone:  # no other thread writes or waits: no queue is needed
            try:
                self._write(whats)
            finally:
                self._leave()
            return
        call = _QueuedWrites(whats)
        self._join(call)
        if not call.done:
            self._write_queued(call)
        if call.error is not None:
            raise call.error

    def alone(self) -> _Alone[T]:
        """`with turns.alone():` all that was queued before is written, and nothing until this ends."""
        return _Alone(self)

    def _join(self, call: _QueuedWrites[T]) -> None:
        """Return when the call is written, or when it is this thread's turn to write."""
        with self._mutex:
            self._queue.append(call)
            if not self._taken:
                self._taken = True
                return
        call.wake.acquire()

    def _leave(self) -> None:
        """Give the turn to the thread that has waited longest."""
        with self._mutex:
            if self._queue:
                self._queue[0].wake.release()
            else:
                self._taken = False

    def _write_queued(self, mine: _QueuedWrites[T]) -> None:
        """With the turn: write what is queued, and pass the turn on. `mine` is the first in the queue."""
        with self._mutex:
            most = next((place for place, call in enumerate(self._queue) if call.alone), _MOST)
            calls = self._queue[: min(most, _MOST)]
            del self._queue[: len(calls)]
        try:
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
                if call is not mine:
                    call.wake.release()
            self._leave()


class _QueuedWrites(Generic[T]):
    def __init__(self, whats: Sequence[T], *, alone: bool = False) -> None:
        self.whats = whats
        self.alone = alone
        self.done = False
        self.error: Exception | None = None
        self.wake = allocate_lock()  # released when it is written, or when it has the turn
        self.wake.acquire()


class _Alone(Generic[T]):
    def __init__(self, turns: GroupCommit[T]) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        turns = self._turns
        turns._join(_QueuedWrites((), alone=True))  # all that was queued before it is written when its turn comes
        with turns._mutex:
            del turns._queue[0]

    def __exit__(self, *_: object) -> None:
        self._turns._leave()
