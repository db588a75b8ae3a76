"""Steps, in the child: if a step's result is recorded, return it without calling the function again."""

from __future__ import annotations

import os
from types import FunctionType

from ....core import checks, json_text, transient
from ....core import retry as rules
from ....core.effects import DONE, FAILED
from ....core.keys import key as derive
from ....errors import Busy, UsageError
from ....system import clock
from ..planned import encode_planned, loads
from .direct import RecordRequest
from .drive import Sleep, SupervisorRequest, UserCall, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .drive import Work

    # How many more tries a transient failure gets; or a function of (error, tries so far) that returns the seconds to
    # wait before the next try, None for no other try.
    Retry = int | Callable[[Exception, int], float | None]

LONGEST_RESULT = 1_000_000  # characters of JSON
_LONGEST_PAUSE = 60.0  # seconds; only a server may ask for more
_encode = json_text.encoder(encode_planned, nan=False)
_PLAIN = (str, int, bool, type(None))  # come back from JSON as they were
_DATA = (*_PLAIN, float, bytes, tuple, list, dict)  # compared by value, if a function captured them


class StepMemory:
    """The recorded steps of a run or nested run: read all at once, at the first use."""

    def __init__(self, run: str, attempt: int) -> None:
        self.run = run  # a nested run's id; "" for the supervisor's run
        self.item = os.environ.get("NIGHTLATCH_STEP")  # a batch's items share a run, and each has its own steps
        self.done: dict[str, str] = {}  # digest → the result as JSON
        self.begun: dict[str, int] = {}  # digest → how many attempts died while this step ran
        self._loaded = attempt <= 1  # the first attempt has nothing to load
        self._uses: dict[str, tuple[str, Any]] = {}

    def load(self) -> Work[None]:
        if self._loaded:
            return
        reply = yield RecordRequest(do="known", run=self.run)
        if reply["path"]:
            with open(reply["path"], encoding="utf-8") as file:
                for line in file:
                    digest, status, tries, result = line.rstrip("\n").split(" ", 3)
                    if status == DONE:
                        self.done[digest] = result
                    elif status != FAILED:
                        self.begun[digest] = int(tries)
            os.unlink(reply["path"])
        self._loaded = True

    def recall(self, digest: str) -> str | None:
        return self.done.get(digest) if self._loaded else None

    def ask(self, do: str, **more: Any) -> SupervisorRequest:
        return SupervisorRequest(do=do, run=self.run, **more) if self.run else SupervisorRequest(do=do, **more)

    def record(self, steps: list[list[Any]], **count: Any) -> SupervisorRequest:
        return RecordRequest(do="step", run=self.run, steps=steps, **count)

    def step(
        self, key: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], retry: Retry
    ) -> Any:
        """Does the work of `Run.step`. It is here so that a call imports nothing."""
        checks.function(function, "what a step calls")
        check_retry(retry)
        return call(step(self, key, UserCall(function, args, kwargs), retry), function)

    def check_use(self, key: str, digest: str, user_call: UserCall) -> None:
        """Refuse a key that this run used with another function or arguments: its result would be wrong."""
        function = user_call.function
        use = (
            getattr(function, "__qualname__", repr(function)),
            (user_call.args, user_call.kwargs, _captured(function)),
        )
        before = self._uses.setdefault(digest, use)
        if before is not use and not _same(before, use):
            raise UsageError(
                f"the step {key!r} was used for other work in this run ({before[0]}). A key names one piece of work: "
                f"give this one another key, as in {key + '/2'!r}"
            )


def step(memory: StepMemory, key: str, user_call: UserCall, retry: Retry) -> Work[Any]:
    """Call the function unless its result is recorded, and record the result."""
    digest = digest_of(key, memory.item)
    yield from memory.load()
    memory.check_use(key, digest, user_call)
    recorded = memory.recall(digest)
    if recorded is not None:
        return loads(recorded)
    tries = 0
    while True:
        tries += 1
        try:
            result = yield user_call
            text = serialised("step", key, result)
        except Exception as error:
            yield memory.record([[digest, key, FAILED, tries, "", reason_of(error)]])
            pause = pause_after(retry, error, tries)
            if pause is None:
                raise
            yield Sleep(pause)
            continue
        yield memory.record([[digest, key, DONE, tries, text, ""]])
        memory.done[digest] = text
        return as_recorded(result, text)


def digest_of(key: str, item: str | None) -> str:
    if not isinstance(key, str) or not key or len(key) > 1000 or not key.isprintable():
        raise UsageError(
            f"{checks.shown(key)} cannot be a step's key: use 1 to 1000 printable letters, as in 'outline'"
        )
    return derive("step", item, key)[:32] if item else derive("step", key)[:32]


def check_retry(retry: object) -> None:
    if not callable(retry):
        checks.whole(retry, "retry")


def serialised(what: str, key: str, result: Any) -> str:
    """The result as ASCII JSON, which every database stores unchanged."""
    try:
        text = _encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the result of the {what} {key!r} cannot be recorded, since JSON cannot carry it ({error}): return text, "
            f"numbers, lists and dicts, or write it to a file and return the path"
        ) from None
    if len(text) > LONGEST_RESULT:
        raise UsageError(
            f"the result of the {what} {key!r} is too long to be recorded ({len(text)} characters, at most "
            f"{LONGEST_RESULT}): write it to a file and return the path"
        )
    return text


def as_recorded(result: Any, text: str) -> Any:
    """What the next attempt would get: JSON turns a tuple into a list, so this attempt returns a list too."""
    return result if isinstance(result, _PLAIN) else loads(text)


def pause_after(retry: Retry, error: Exception, tries: int) -> float | None:
    """Seconds before the next try; None for no other try."""
    if isinstance(error, UsageError):
        return None
    if callable(retry):
        return retry(error, tries)
    # A busy lease is worth another try. An error raised from another is as transient as its cause.
    is_transient = isinstance(error, Busy) or transient.transient(error.__cause__ or error)
    if tries > retry or not is_transient:
        return None
    at_least = transient.retry_after(error.__cause__ or error, clock.wall())
    # Random, so that calls that failed together do not retry together.
    return rules.pause(tries, longest=_LONGEST_PAUSE, chance=os.urandom(1)[0] / 255, at_least=at_least)


def reason_of(error: BaseException) -> str:
    try:
        first_line = str(error).strip().partition("\n")[0][:500]
    except Exception:  # noqa: BLE001 - the user's __str__ may fail; the failure is recorded anyway
        first_line = ""
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def trace_of(error: BaseException) -> str:
    """The error's traceback, from the first frame outside this package."""
    import traceback

    package = os.path.dirname(os.path.dirname(checks.__file__)) + os.sep
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(package):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _captured(function: Any) -> Any:
    """What a function uses besides its arguments: the object of a method, and what a lambda in a loop captured."""
    cells = getattr(function, "__closure__", None)
    if cells is None and type(function) is FunctionType:
        return None  # the common case, made fast
    captured = []
    for cell in cells or ():
        try:
            found = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(found, _DATA):
            captured.append(found)
    return getattr(function, "__self__", None), captured


def _same(before: tuple[str, Any], now: tuple[str, Any]) -> bool:
    try:
        return bool(before == now)
    except Exception:  # noqa: BLE001 - arrays and the like refuse to be compared
        return before[0] == now[0]
