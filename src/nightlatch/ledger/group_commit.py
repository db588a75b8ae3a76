"""Group commit: calls of several threads that come together are written together.

The thread that gets the turn writes all that is queued by then, and wakes the threads whose calls it has written.
No call waits for others to join it.
"""

from __future__ import annotations

from _thread import allocate_lock

from ..core.value import Generic, T
from ..errors import StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST = 256  # calls in one commit: the first of them waits for them all


class GroupCommit(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._mutex = allocate_lock()  # for the two fields below; never held while writing
        self._queue: list[_QueuedWrites[T]] = []
        self._taken = False  # a thread has the turn to write

    def take(self, *items: T) -> None:
        """Return when the items are written, in one commit; raises what the commit raised."""
        with self._mutex:
            idle = not self._taken
            self._taken = True
        if idle:  # no other thread writes or waits: no queue is needed
            try:
                self._write(items)
            finally:
                self._leave()
            return
        call = _QueuedWrites(items)
        self._join(call)
        if not call.done:
            self._write_queued(call)
        if call.error is not None:
            raise call.error

    def exclusive(self) -> _Exclusive[T]:
        """`with commits.exclusive():` what was queued before is written first; the rest waits until the block ends."""
        return _Exclusive(self)

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
        """For the thread with the turn: write what is queued, and pass the turn on. `mine` is first in the queue."""
        with self._mutex:
            most = next((place for place, call in enumerate(self._queue) if call.exclusive), _MOST)
            calls = self._queue[: min(most, _MOST)]
            del self._queue[: len(calls)]
        try:
            self._write([item for call in calls for item in call.items])
        except Exception as error:  # noqa: BLE001  each caller gets it, in its own thread
            for call in calls:
                call.error = error
        except BaseException:  # only the writing thread was interrupted, but all these calls were in its commit
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
    def __init__(self, items: Sequence[T], *, exclusive: bool = False) -> None:
        self.items = items
        self.exclusive = exclusive
        self.done = False
        self.error: Exception | None = None
        self.wake = allocate_lock()  # released when the items are written, or when the caller has the turn
        self.wake.acquire()


class _Exclusive(Generic[T]):
    def __init__(self, commits: GroupCommit[T]) -> None:
        self._commits = commits

    def __enter__(self) -> None:
        commits = self._commits
        commits._join(_QueuedWrites((), exclusive=True))  # when its turn comes, all that was queued before is written
        with commits._mutex:
            del commits._queue[0]

    def __exit__(self, *_: object) -> None:
        self._commits._leave()
