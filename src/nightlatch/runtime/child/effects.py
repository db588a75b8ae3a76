"""An effect, in the child: intent, act, confirm. A failure without proof that nothing happened leaves it in doubt."""

from __future__ import annotations

from ...core import checks, json_text, transient
from ...core.effects import DONE, FAILED, FIRST_PAUSE, IN_DOUBT, LONGEST_PAUSE, PLANNED
from ...core.keys import key as derive
from ...errors import Error, NotDone, UsageError
from ...system import clock
from .planned import Planned, contains_planned
from .steps.drive import Sleep, SupervisorRequest, UserCall
from .steps.step import as_recorded, pause_after, reason_of, serialised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .steps.drive import Work
    from .steps.step import Retry, StepMemory

    Proof = type[BaseException] | int  # an exception's class, or an HTTP status

_LONGEST_RESULT = 60_000  # characters of JSON
_REPORT_EVERY = 1.0  # seconds between two reports while waiting, so that the supervisor sees no stall


class EffectRequest:
    """An effect to be done once. `deadline` and `settle` are seconds."""

    def __init__(
        self,
        key: str,
        scope: str,
        do: Callable[[], Any],
        probe: Callable[[], Any] | None,
        input: Any,
        not_done: tuple[Proof, ...],
        deadline: float,
        settle: float,
    ) -> None:
        if not isinstance(not_done, list | tuple) or not all(_is_proof(one) for one in not_done):
            raise UsageError(f"not_done is {checks.shown(not_done)}: list exceptions or statuses, as in (Refused, 409)")
        if isinstance(input, str):
            checks.text(input, "input", empty=True)
        self.key, self.scope, self.do, self.probe, self.not_done = key, scope, do, probe, not_done
        self.deadline, self.settle = deadline, settle
        unknown = input is None or contains_planned(input)
        self.input = "" if unknown else derive("input", input.encode() if isinstance(input, str) else input)

    def proves_not_done(self, error: Exception) -> bool:
        """Does the error prove that nothing was done?"""
        kinds = tuple(one for one in self.not_done if isinstance(one, type))
        if isinstance(error, (NotDone, *kinds)) or transient.status(error) in self.not_done:
            return True
        return transient.never_sent(error)


def _is_proof(one: object) -> bool:
    return isinstance(one, int) or (isinstance(one, type) and issubclass(one, BaseException))


def effect(memory: StepMemory, request: EffectRequest, retry: Retry) -> Work[Any]:
    named = {"key": request.key, "scope": request.scope}
    failure: Exception | None = None  # what `do` raised last
    tries, probe_pause = 0, FIRST_PAUSE
    while True:
        reply = yield from _begin(memory, request, named)
        if reply["status"] == DONE:
            return _recorded_result(reply["result"])
        if reply["status"] == PLANNED:
            return Planned(request.key)
        if reply["status"] == "probe":
            found, unsettled_for = yield from _probe(memory, request, named)
            if found is not None and found is not False:
                return None if found is True else found
            if unsettled_for:
                until = clock.now() + min(unsettled_for, probe_pause)
                while (left := until - clock.now()) > 0:
                    yield Sleep(min(left, _REPORT_EVERY))
                    yield memory.ask("moved")
                probe_pause = min(2 * probe_pause, LONGEST_PAUSE)
            elif failure is not None:
                pause = pause_after(retry, failure, tries)
                if pause is None:
                    raise NotDone(f"the probe found that the effect {request.key} was not done") from failure
                yield Sleep(pause)
            continue
        tries += 1
        try:
            result = yield UserCall(request.do)
        except Exception as error:
            proven = request.proves_not_done(error)
            # Without a probe this raises InDoubt: only a person can find out.
            yield memory.ask(
                "effect-ended", **named, status=FAILED if proven else IN_DOUBT, reason=_failure_reason(error, proven)
            )  # fmt: skip
            failure = error
            if proven:
                pause = pause_after(retry, error, tries)
                if pause is None:
                    raise
                yield Sleep(pause)
            continue
        except BaseException as stop:  # stopped while `do` ran
            try:
                yield memory.ask("effect-ended", **named, status=IN_DOUBT, reason=_failure_reason(stop, False))
            except Error:
                pass  # the supervisor records the same when this process is gone
            raise
        text = ""
        try:
            text = serialised("effect", request.key, result)
            if len(text) > _LONGEST_RESULT:
                raise UsageError(f"the result of the effect {request.key!r} is too long to be recorded: return an id")
        finally:  # the effect is done, even if its result cannot be recorded
            yield memory.ask("effect-ended", **named, status=DONE, result=text if len(text) <= _LONGEST_RESULT else "")
        return as_recorded(result, text)


def _begin(memory: StepMemory, request: EffectRequest, named: dict[str, str]) -> Work[dict[str, Any]]:
    beginning = _BeginRequest(
        memory.ask(
            "effect", **named, input=request.input, lasting=request.deadline, settle=request.settle,
            probes=request.probe is not None,
        )
    )  # fmt: skip
    try:
        return (yield beginning)  # type: ignore[no-any-return]
    except BaseException as stop:
        if beginning.late_status == "begun":  # recorded as begun, but this process will not do it
            yield memory.ask("effect-ended", **named, status=FAILED, reason=f"{reason_of(stop)} before it was done")
        elif beginning.late_status == "probe":
            yield from _report_interrupted_probe(memory, named, stop)
        raise


class _BeginRequest(SupervisorRequest):
    """Waits for the reply even when the event loop cancels the caller: an effect that was begun must be ended."""

    __slots__ = ("late_status",)

    def __init__(self, ask: SupervisorRequest) -> None:
        super().__init__(**ask.request)
        self.late_status = ""  # of a reply that came after the caller was cancelled

    async def later(self) -> Any:
        import asyncio

        request = asyncio.ensure_future(super().later())
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            await asyncio.wait([request])
            if not request.cancelled() and not request.exception():
                self.late_status = request.result()["status"]
            raise


def _report_interrupted_probe(memory: StepMemory, named: dict[str, str], stop: BaseException) -> Work[None]:
    try:
        yield memory.ask("effect-probed", **named, outcome="unknown", reason=reason_of(stop))
    except Error:
        pass  # this process stops anyway


def _probe(memory: StepMemory, request: EffectRequest, named: dict[str, str]) -> Work[tuple[Any, float]]:
    """Call the probe and report what it found. Returns the result (True if done without one, None if not done), and
    for how many seconds "not done" may still change."""
    assert request.probe
    try:
        found = yield UserCall(request.probe)
    except Exception as error:  # noqa: BLE001 - whatever was raised, the probe could not tell
        reply = yield memory.ask("effect-probed", **named, outcome="unknown", reason=reason_of(error))
        return None, reply["seconds"]  # the probe may know later
    except BaseException as stop:
        yield from _report_interrupted_probe(memory, named, stop)
        raise
    if found is None or found is False:
        reply = yield memory.ask("effect-probed", **named, outcome=FAILED)
        return None, reply.get("seconds", 0.0)
    text = ""
    try:
        text = "" if found is True else serialised("probe of", request.key, found)
    finally:  # the effect is done, even if its result cannot be recorded
        yield memory.ask("effect-probed", **named, outcome=DONE, result=text)
    return found, 0.0


def _failure_reason(error: BaseException, proven: bool) -> str:
    return f"{reason_of(error)}, which {'says that nothing was done' if proven else 'does not say whether it acted'}"


def _recorded_result(result: str) -> Any:
    """The value of its JSON, or the text that a command printed. None if no result was recorded."""
    if not result:
        return None
    try:
        return json_text.loads(result)
    except ValueError:
        return result
