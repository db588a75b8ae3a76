"""The driver of a vendor's agent. It is the command of a run: `main()`, with --provider, --agent and --input.

    begin (which launch, what it may use) → launch, as an effect → poll … → answer

The handle is in the ledger before the first poll: if this process hangs or dies, the supervisor can end the agent.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import start_new_thread

from .. import exits
from ..core import agent as names
from ..core import duration, json_text
from ..core.agent import PREPARED, AgentRequest
from ..core.metering.price import tokens as counted
from ..core.retry import FAILED_FOR_GOOD, TRY_AGAIN
from ..core.value import replace
from ..errors import Error, InDoubt, LeaseLost
from ..runtime.child.context import current
from ..runtime.shared.client import send
from ..system import clock
from ..system.light import signal
from ..system.open_beneath import write_beneath
from . import ending, providers
from .limits import limits
from .pace import pauses
from .prices import Tariff
from .seam import (
    CANCELLED,
    ENDED,
    FAILED,
    OVER_BUDGET,
    SUCCEEDED,
    UNKNOWN,
    WAITING,
    Ask,
    NotLaunched,
    Seen,
    Unclear,
    can,
    poll,
)

_SEARCH_BACK = 7 * 86_400  # seconds: how far back a vendor's list is searched for a launch
_PATIENCE = 600.0  # seconds for a cancel, where nothing else limits it
_AGENT_GOES_ON = ("taken", "shut-down", "lost")  # they end the run but not its agent, which the next holder finds
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _EndRequested(BaseException):
    """A signal asks the driver to end."""


def _import_ahead() -> None:
    """Import what the launch needs while the supervisor looks up the run."""
    from ..runtime.child import effects  # noqa: F401


class AgentDriver:
    def __init__(self, request: AgentRequest) -> None:
        self._request = request
        self._adapter = providers.load(request.provider, request.nested)
        self._tariff = Tariff(self._adapter.vendor)
        self._run = current()
        self._launch, self._label, self._handle = "", "", ""
        self._last, self._steps = Seen(status=PREPARED), 0
        self._last_trouble = ""
        self._allowance: dict[str, float] = {}  # what the launch may use of each unit that has a cap
        self._used_before: dict[str, float] = {}  # what the launch had used when this driver began
        self._total: dict[str, float] = {}  # what the vendor reports now
        self._growth: list[dict[str, float]] = [{}, {}]  # of the total, in the last two polls
        self._waited_since = 0.0
        self._launching = self._end_requested = False

    # ── one launch ──

    def run(self) -> int:
        for signum in _END_SIGNALS:
            signal.signal(signum, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)
        try:
            self._handle = self._find_or_launch()
            if self._end_requested:
                raise _EndRequested
            return self._watch()
        except _EndRequested:
            return self._end()
        except NotLaunched as refused:
            if refused.later:
                send(do="retry-after", seconds=refused.later)
            self._fail(f"nothing was launched: {refused}")
            return TRY_AGAIN if refused.later is not None else FAILED_FOR_GOOD
        except InDoubt as doubt:
            print(f"nightlatch: {doubt}", file=sys.stderr)
            return doubt.exit_code

    def _find_or_launch(self) -> str:
        """The agent's handle: launched now, or by an earlier attempt."""
        start_new_thread(_import_ahead, ())
        begun = send(do="agent-begin", key=self._run.key)
        self._launch, self._label, self._allowance = begun["launch"], begun["label"], begun["given"]
        self._handle = begun["handle"]
        self._used_before = self._total = begun["used"]
        ask = self._ask()
        find = can(self._adapter, "find")
        self._launching = True
        try:
            # No `input`, which would be compared: after an edit of the prompt, the agent at work must still be found.
            found = self._run.effect(
                self._launch,
                scope=self._run.job,
                do=lambda: self._start(ask),
                probe=(lambda: self._find_earlier(ask)) if find else None,
                deadline=duration.show(self._request.seconds("deadline")),
                settle=duration.show(self._adapter.lag),
            )
        finally:
            self._launching = False
        self._handle = str(found)
        self._record(Seen(status="running"))
        return self._handle

    def _ask(self) -> Ask:
        vendor_fields = self._request.nested
        ask = Ask(
            agent=self._request.agent,
            input=self._request.input,
            fields={name: setting for name, setting in vendor_fields.items() if name not in names.FIELDS},
            labels={"nightlatch_run": self._run.run.lower(), "nightlatch_launch": self._label},
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.wall() - _SEARCH_BACK)),
        )
        model = str(vendor_fields.get("priced_as") or self._request.agent)
        return replace(ask, **limits(self._adapter, self._tariff, model, self._allowance))

    def _start(self, ask: Ask) -> str:
        until = clock.now() + self._request.seconds("deadline")
        prepare = can(self._adapter, "prepare")
        if prepare:
            try:
                self._handle = prepare(ask)
            except Unclear as error:
                raise error.as_not_launched() from error
            self._record(self._last)
        if clock.now() >= until:  # we were stopped meanwhile: a successor may have found nothing, and launched
            raise NotLaunched("its time was over before the request was sent", 0.0)
        return self._adapter.launch(ask, self._handle)

    def _find_earlier(self, ask: Ask) -> str | None:
        found = can(self._adapter, "find")(ask, self._handle)
        if found is UNKNOWN:
            raise Unclear("the vendor cannot tell")
        return None if found is None else str(found)

    # ── watching the agent ──

    def _watch(self) -> int:
        for pause in pauses(self._request.seconds("every"), os.urandom(1)[0] / 255):
            later = 0.0
            try:
                state = poll(self._adapter, self._handle)
            except Unclear as error:  # a 404 too: what was launched may not show yet
                later = error.later
                self._log_trouble(str(error))
            else:
                self._record(state)
                if state.status in ENDED:
                    return self._ended(state)
                if state.status == WAITING and not self._may_wait():
                    return self._give_up_waiting(state)
                if unit := self._nearly_spent_unit():
                    return self._end(spent=unit)
            self._sleep(max(pause, later))
        raise AssertionError("unreachable")

    def _may_wait(self) -> bool:
        if not self._waited_since:
            self._waited_since = clock.now()
            print(f"nightlatch: the agent {self._handle} waits for: {self._last.waits_for}", file=sys.stderr)
        return clock.now() - self._waited_since < self._request.seconds("waits")

    def _nearly_spent_unit(self) -> str:
        """A unit of which less is left than the last two polls added, so that the next poll may be too late; or ""."""
        for unit, given in self._allowance.items():
            grown = sum(growth.get(unit, 0.0) for growth in self._growth)
            if grown and given - self._spent(unit) < grown:
                return unit
        return ""

    def _spent(self, unit: str) -> float:
        """What the agent has used of its allowance."""
        return self._total.get(unit, 0.0) - self._used_before.get(unit, 0.0)

    # ── how the agent ends ──

    def _ended(self, state: Seen) -> int:
        self._print_answer(state)
        self._record(state, ended=True)
        if trouble := self._save_result(state):
            # The launch is recorded as ended: another attempt of the run only fetches the result.
            self._fail(f"its result could not be kept: {trouble}")
            return TRY_AGAIN
        if state.status == SUCCEEDED:
            return 0
        if state.status == OVER_BUDGET:
            self._fail("the vendor ended it: the budget that it was given is reached")
            return exits.FAILED
        if state.status == CANCELLED:
            self._fail("it was cancelled at the vendor")
            return FAILED_FOR_GOOD
        self._fail(state.reason or "it failed at the vendor")
        return exits.FAILED

    def _give_up_waiting(self, state: Seen) -> int:
        code = self._end()
        send(do="fail", reason=f"it waited for a person: {state.waits_for or 'a decision'}", attention=True)
        return code

    def _end(self, *, spent: str = "") -> int:
        """Cancel the agent and wait for proof, unless the next holder goes on with it. Returns the exit code."""
        for signum in _END_SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        try:
            why = send(do="why")["why"]
        except (Error, LeaseLost):
            why = _AGENT_GOES_ON[0]  # without proof that the lease is ours, the agent is not ours to cancel
        if not self._handle or self._last.status == PREPARED or why in _AGENT_GOES_ON:
            return exits.TERMINATED
        state, trouble = ending.end(self._adapter, self._handle, clock.now() + _PATIENCE, self._record)
        if state is None:
            self._fail(f"the vendor did not confirm the end of {self._handle}: {trouble}")
            return exits.TERMINATED
        self._print_answer(state)
        refused = ""
        if spent:
            given, used = self._allowance[spent], self._spent(spent)
            over = f"over by {used - given:g}" if used > given else "within it"
            refused = f"cancelled for its budget: {used:g} of {given:g} {spent} were used when it ended, {over}"
        self._record(state, ended=True, refused=refused)
        return exits.TERMINATED

    def _print_answer(self, state: Seen) -> None:
        if state.answer:
            print(state.answer, flush=True)

    def _save_result(self, state: Seen) -> str:
        """Write the agent's answer and files to the workspace. Returns what went wrong; "" if nothing did."""
        workspace = os.environ.get("NIGHTLATCH_WORKSPACE")
        if not workspace or state.status not in (SUCCEEDED, FAILED):
            return ""
        from pathlib import Path

        try:
            if state.answer:
                write_beneath(workspace, ["answer.md"], state.answer.encode(errors="replace"))
            if fetch := can(self._adapter, "fetch"):
                folder = Path(workspace, "files")
                folder.mkdir(exist_ok=True)
                fetch(self._handle, folder)
        except Exception as error:  # noqa: BLE001 - any error of an adapter or a disk
            return f"{type(error).__name__}: {error}"
        return ""

    def _fail(self, reason: str) -> None:
        send(do="fail", reason=reason)

    # ── reports to the supervisor ──

    def _record(self, state: Seen, *, ended: bool = False, refused: str = "") -> None:
        usd = state.usd
        if usd is None and any(state.counts.values()):
            model = str(self._request.fields.get("priced_as") or state.model or self._request.agent)
            usd = self._tariff.usd(model, state.counts, wait=ended)
        total = {"tokens": float(counted(state.counts))} | ({} if usd is None else {"usd": usd})
        # A figure lower than before is the vendor's error: usage only grows.
        total = {unit: max(amount, self._total.get(unit, 0.0)) for unit, amount in total.items()}
        moved = state.steps > self._steps or total["tokens"] > self._total.get("tokens", 0.0)
        self._steps = max(self._steps, state.steps)
        vendor_fields = {name: setting for name, setting in self._request.nested.items() if name not in names.FIELDS}
        send(
            do="agent",
            launch=self._launch,
            provider=self._request.provider,
            agent=self._request.agent,
            handle=self._handle,
            status=state.status,
            note=state.waits_for or state.reason,
            page=state.page,
            fields=json_text.dumps(vendor_fields),
            used=total,
            model=state.model,
            answer=state.answer[:1_000_000] if ended else "",
            ended=ended,
            refused=refused or ("the vendor's own budget is reached" if state.status == OVER_BUDGET else ""),
            moved=moved,
        )
        grown = {unit: amount - self._total.get(unit, 0.0) for unit, amount in total.items()}
        self._growth, self._total = [self._growth[1], grown], {**self._total, **total}
        self._last = state

    def _log_trouble(self, trouble: str) -> None:
        """Print trouble to the run's log, unless it was the last one printed."""
        if trouble != self._last_trouble:
            print(f"nightlatch: the agent {self._handle} cannot be seen: {trouble}", file=sys.stderr, flush=True)
        self._last_trouble = trouble

    # ── signals ──

    def _on_signal(self, *_: object) -> None:
        if self._launching:  # the handle comes with the reply, and nothing can be cancelled without it
            self._end_requested = True
        else:
            raise _EndRequested

    def _sleep(self, seconds: float) -> None:
        until = clock.now() + seconds
        while (left := until - clock.now()) > 0:
            clock.sleep(left)  # sleeps for a second at most


def main() -> None:
    try:
        request = names.read_words(sys.argv[1:])
        sys.exit(AgentDriver(request).run())
    except Error as error:
        print(f"nightlatch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except LeaseLost as lost:
        print(f"nightlatch: {lost}", file=sys.stderr)
        sys.exit(lost.exit_code)
