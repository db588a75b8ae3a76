"""`run.map`: call a function for each unfinished item, several at a time.

Workers share one list. With one request, a worker reports both the item that it has ended and the one that it begins,
so an item costs one commit; requests that several workers send at the same time share a commit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ....core import checks
from ....core.breaker import Breaker, failure_shape
from ....core.effects import BEGUN, DONE, FAILED
from ....core.keys import key as derive
from ....core.printable import printable
from ....errors import Error, InDoubt, MapFailed, UsageError
from ...shared.batches.template import BadItem, Template
from ..planned import loads
from .drive import Sleep, UserCall
from .step import StepMemory, as_recorded, pause_after, reason_of, serialised, trace_of

if TYPE_CHECKING:
    from .drive import Work
    from .step import Retry

R = TypeVar("R")

Key = str | Callable[[Any], Any] | None

_DEATHS = 3  # an item is set aside after this many attempts died while it ran
_NAMED = 5  # items that a message names


class Failed:
    """An item that is not done. `error` is what its function raised; None if it was not tried."""

    def __init__(self, key: str, item: Any, error: Exception | None, reason: str, *, waits: bool = False) -> None:
        self.key, self.item, self.error, self.reason = key, item, error, reason
        self.waits = waits  # for a person: it is in doubt, or set aside

    def __repr__(self) -> str:
        return f"<Failed {self.key}: {self.reason}>"


class Results(list[R]):
    """What the function returned for each item, in the order of the items; None in place of one that failed."""

    def __init__(self, size: int) -> None:
        super().__init__(cast("list[R]", [None] * size))
        self.failed: list[Failed] = []
        self.duplicates: list[str] = []  # keys that several items share: done once, for all of them
        self.stopped = ""  # why not all items were tried


class Map:
    """One call of `run.map`: `prepare`, then any number of `worker`, then `result`."""

    def __init__(
        self, memory: StepMemory, function: Callable[[Any], Any], items: Iterable[Any], key: Key, name: str | None
    ) -> None:
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise UsageError(f"items is {checks.shown(items)}: give a list of what the function is called with")
        if key is not None and not callable(key):
            checks.text(key, "key")
        self._memory, self._function, self._items = memory, function, list(items)
        self._name = _name(function) if name is None else checks.text(name, "name")
        self._retry: Retry = 0
        self._key = key
        self._lock = Lock()
        self._todo: list[tuple[int, str, str]] = []  # index, key, digest of the items to do
        self._by_digest: dict[str, list[int]] = {}  # digest → indexes of the items that have it
        self._breaker, self._done = Breaker(), 0
        self.results: Results[Any] = Results(len(self._items))

    def prepare(self, retry: Retry) -> Work[int]:
        """Find the items to do; returns how many there are."""
        self._retry = retry
        yield from self._memory.load()
        key_and_digest = _key_function(self._key, self._name)
        for index, item in enumerate(self._items):
            try:
                key, digest = key_and_digest(item)
            except Exception as error:  # noqa: BLE001 - the user's function may make the key
                why = str(error) if isinstance(error, BadItem | UsageError) else reason_of(error)
                self._fail(Failed(f"item {index}", item, error, f"it has no key: {why}"))
                continue
            indexes = self._by_digest.setdefault(digest, [])
            indexes.append(index)
            if len(indexes) > 1:
                self.results.duplicates.append(key)
                self._done += digest in self._memory.done
                continue
            recorded = self._memory.recall(digest)
            if recorded is None:
                self._todo.append((index, key, digest))
            else:
                self.results[index] = loads(recorded)
                self._done += 1
        if self.results.duplicates:
            count, names = len(self.results.duplicates), ", ".join(self.results.duplicates[:_NAMED])
            print(
                f"nightlatch: {count} item{'s' if count > 1 else ''} of {self._name} with the key of another item, "
                f"which is done for both: {printable(names)}",
                file=sys.stderr,
            )
        self._todo.reverse()
        return len(self._todo)

    def worker(self) -> Work[None]:
        """Do items until there are no more."""
        ended: list[Any] = []
        while True:
            with self._lock:
                taken = None if self.results.stopped else self._todo.pop() if self._todo else None
                begun = []
                if taken:
                    index, key, digest = taken
                    deaths = self._memory.begun.get(digest, 0)
                    if deaths >= _DEATHS:
                        # Recorded as failed, which resets the count: the next attempt, which a person starts, tries it.
                        why = f"set aside: {deaths} attempts died while it was worked on"
                        ended.append([digest, key, FAILED, 0, "", why])
                        self._fail(Failed(key, self._items[index], None, why, waits=True))
                        continue
                    begun = [[digest, key, BEGUN, deaths + 1, "", ""]]
                count = {"of": len(self._items), "done": self._done, "last": not taken}
            if ended or begun:
                yield self._memory.record([*ended, *begun], message=self._name, **count)
            if not taken:
                return
            ended = [(yield from self._do(index, key, digest))]

    def result(self, failures: str) -> Results[Any]:
        for indexes in self._by_digest.values():
            for index in indexes[1:]:
                self.results[index] = self.results[indexes[0]]
        if self.results.failed and failures == "raise":
            raise self._failure()
        return self.results

    def stop(self, why: str) -> None:
        self.results.stopped = self.results.stopped or why

    def _failure(self) -> MapFailed:
        waiting = [one for one in self.results.failed if one.waits]
        listed = waiting or self.results.failed
        what, more = "wait for a person" if waiting else "failed", len(listed) - _NAMED
        by_reason: dict[str, list[Failed]] = {}  # a shared reason is given once
        for one in listed[:_NAMED]:
            by_reason.setdefault(one.reason, []).append(one)
        failed = MapFailed(
            (f"{self.results.stopped}. " if self.results.stopped else "")
            + f"{len(listed)} of {len(self.results)} items {what}: "
            + "; ".join(f"{', '.join(one.key for one in ones)} ({reason})" for reason, ones in by_reason.items())
            + (f" and {more} more" if more > 0 else "")
            + ". The next attempt does only what is not done",
            self.results,
        )
        for first, *_ in by_reason.values():
            if first.error:  # this traceback is recorded and shown with the run's
                failed.add_note(f"\nitem {printable(first.key)}:\n{trace_of(first.error).rstrip()}")
        if waiting:
            failed.exit_code = InDoubt.exit_code
        return failed

    def _do(self, index: int, key: str, digest: str) -> Work[list[Any]]:
        """Do one item, with its retries; returns its record."""
        item, tries = self._items[index], 0
        while True:
            tries += 1
            try:
                result = yield UserCall(self._function, (item,))
                text = serialised("item", key, result)
            except BaseException as raised:
                error = raised if isinstance(raised, Exception) else _cancelled_await(raised)
                if error is None:
                    self.stop("it was stopped")
                    raise
                pause = None if isinstance(error, InDoubt) else pause_after(self._retry, error, tries)
                if pause is not None and not self.results.stopped:
                    yield Sleep(pause)
                    continue
                reason = reason_of(error)
                with self._lock:
                    self._fail(Failed(key, item, error, reason, waits=needs_person(error)))
                    self._breaker.add(digest, failure_shape(1, [reason]))
                    if self._breaker.tripped:
                        self.stop(f"paused: most of the last items failed in the same way ({reason}). Fix the cause")
                return [digest, key, FAILED, tries, "", reason]
            with self._lock:
                self.results[index] = as_recorded(result, text)
                self._breaker.add(digest, "")
                self._done += len(self._by_digest[digest])  # with those that share its key
                self._memory.done[digest] = text
            return [digest, key, DONE, tries, text, ""]

    def _fail(self, failed: Failed) -> None:
        self.results.failed.append(failed)


def _cancelled_await(raised: BaseException) -> Exception | None:
    """The item's failure, if only what the item awaited was cancelled; None for all else: then the map must stop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not isinstance(raised, asyncio.CancelledError):
        return None
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop here
        return None
    if task is None or task.cancelling():
        return None
    failed = RuntimeError("what it awaited was cancelled")
    failed.__cause__ = raised
    return failed


def needs_person(error: BaseException) -> bool:
    """Does the error need a person's decision?"""
    return isinstance(error, Error) and error.exit_code == InDoubt.exit_code


def run_threads(work: Map, concurrency: int, drive: Callable[[Work[None]], None]) -> None:
    """Run the workers in threads that see the caller's context; the first error stops all and is raised."""
    import contextvars

    errors: list[BaseException] = []

    def worker() -> None:
        try:
            drive(work.worker())
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            work.stop("it was stopped")
            errors.append(error)

    threads = [Thread(target=contextvars.copy_context().run, args=(worker,), daemon=True) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        work.stop("it was stopped")
        raise
    if errors:
        raise errors[0]


def _key_function(key: Key, name: str) -> Callable[[Any], tuple[str, str]]:
    """A function from an item to its readable key and the key's digest."""
    if isinstance(key, str):
        template = Template(key)
        if not template.fields:
            raise UsageError(f"the key {key!r} is the same for every item: name fields, as in '{{site}}/{{slug}}'")

        def from_template(item: Any) -> tuple[str, str]:
            plain = isinstance(item, str | int | float | list | tuple | Mapping)
            values = template.values(item if plain else vars(item))
            return template.fill(values), derive("map", name, key, values)[:32]

        return from_template

    def from_item(item: Any) -> tuple[str, str]:
        found = key(item) if key else item
        shown = found if isinstance(found, str) else json.dumps(found, default=str)
        return shown[:1000], derive("map", name, found)[:32]

    return from_item


def _name(function: object) -> str:
    """The name that distinguishes two maps in one run. A lambda has none."""
    found = getattr(function, "__name__", "")
    if not found.isidentifier():
        raise UsageError("give the map a name, as in run.map(…, name='articles'): its function has none")
    return str(found)
