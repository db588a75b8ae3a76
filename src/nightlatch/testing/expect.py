"""What the suites share: waiting for a condition, expecting an error, acting at once, shifting the wall clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

A = TypeVar("A")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
P = ParamSpec("P")


def raises(kind: type[E], call: Callable[P, object], *args: P.args, **named: P.kwargs) -> E:
    """Call it, and return the error that it must raise. Any other error is passed on."""
    try:
        result = call(*args, **named)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and it returned {result!r}")


def until(condition: Callable[[], T], seconds: float, what: str) -> T:
    """Wait for a condition; returns its first true value."""
    deadline = time.monotonic() + seconds
    while True:
        if result := condition():
            return result
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s, and it did not happen: {what}"
        time.sleep(0.01)


def together(action: Callable[[A], T], actors: Sequence[A]) -> list[T | BaseException]:
    """Call `action` for all actors at once, each in a thread. Returns what each call returned or raised, in order."""
    outcomes: list[T | BaseException] = [AssertionError("it did not end")] * len(actors)
    start = threading.Barrier(len(actors))

    def act(index: int, actor: A) -> None:
        start.wait()
        try:
            outcomes[index] = action(actor)
        except BaseException as error:  # noqa: BLE001  the caller gets it
            outcomes[index] = error

    threads = [threading.Thread(target=act, args=item, daemon=True) for item in enumerate(actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def timed(call: Callable[[], object]) -> float:
    """How many seconds the call takes."""
    started = time.monotonic()
    call()
    return time.monotonic() - started


def moments(span: float, rounds: int) -> list[float]:
    """Delays spread over `span`: a race run with each of them meets the other side at every stage of its work."""
    return [span * (turn + 0.5) / rounds for turn in range(rounds)]


@contextmanager
def wall_clock(offset: float) -> Iterator[None]:
    """Make this process's wall clock `offset` seconds later. Clocks that count from boot do not change."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + offset
    time.time_ns = lambda: real_ns() + int(offset * 1e9)
    try:
        yield
    finally:
        time.time, time.time_ns = real, real_ns
