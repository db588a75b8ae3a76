"""Work that is written once and driven either by plain calls or by an event loop.

Such work is a generator that yields a `SupervisorRequest`, a `UserCall` or a `Sleep`, and receives the result. `drive`
gets it by a plain call of `now()`, `drive_async` by awaiting `later()`.
"""

from __future__ import annotations

from types import CoroutineType, FunctionType

from ....errors import NotDone, OnlyPlanned
from ....system import clock
from ...shared.client import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeVar

    T = TypeVar("T")
    Work = Generator["SupervisorRequest | UserCall | Sleep", Any, T]

_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the slow import


class SupervisorRequest:
    __slots__ = ("request",)

    def __init__(self, **request: Any) -> None:
        self.request = request

    def now(self) -> Any:
        return send(**self.request)

    async def later(self) -> Any:
        from .. import client_async

        return await client_async.send(self.request)


class UserCall:
    """A call of the user's function."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None):
        self.function, self.args, self.kwargs = function, args, kwargs or {}

    def now(self) -> Any:
        try:
            result = self.function(*self.args, **self.kwargs)
        except OnlyPlanned as unknown:
            return unknown.planned  # in a dry-run: a value made from an unknown result is unknown too
        if hasattr(type(result), "__await__"):
            raise _unawaited(self.function, result)
        return result

    async def later(self) -> Any:
        try:
            result = self.function(*self.args, **self.kwargs)
            return await result if hasattr(type(result), "__await__") else result
        except OnlyPlanned as unknown:
            return unknown.planned


def _unawaited(function: object, result: Any) -> Exception:
    """The error for a plain function that returned an awaitable. A coroutine has not begun, so nothing was done."""
    name = getattr(function, "__qualname__", repr(function))
    message = (
        f"{name} is a plain function that returned a {type(result).__name__}, which nobody awaits. Await the call, "
        "of a coroutine function: for an `async def post`, functools.partial(post, slug), not `lambda: post(slug)`"
    )
    if type(result) is not CoroutineType:
        return TypeError(message)
    result.close()
    return NotDone(message)


class Sleep:
    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> None:
        until = clock.now() + self.seconds
        while (left := until - clock.now()) > 0:
            clock.sleep(left)

    async def later(self) -> None:
        import asyncio

        until = clock.now() + self.seconds
        while (left := until - clock.now()) > 0:
            await asyncio.sleep(min(left, clock.SLICE))


def drive(work: Work[T]) -> T:
    try:
        wanted = next(work)
        while True:
            try:
                result = wanted.now()
            except BaseException as error:  # noqa: BLE001 - the work handles it, or raises it again
                wanted = work.throw(error)
            else:
                wanted = work.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_async(work: Work[T]) -> T:
    try:
        wanted = next(work)
        while True:
            try:
                result = await wanted.later()
            except BaseException as error:  # noqa: BLE001 - as above
                wanted = work.throw(error)
            else:
                wanted = work.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def call(work: Work[Any], *functions: object) -> Any:
    """Drive the work by plain calls, or return a coroutine if one of the user's functions is a coroutine function."""
    return drive_async(work) if any(map(is_async, functions)) else drive(work)


def is_async(function: object) -> bool:
    """Is it a coroutine function, or an object that is called like one?"""
    if type(function) is FunctionType:
        return bool(function.__code__.co_flags & _COROUTINE)  # the common case, made fast
    import inspect

    while hasattr(function, "func"):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
