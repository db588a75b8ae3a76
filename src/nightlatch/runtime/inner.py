"""Runs inside a run, on the supervisor's side: begun, recorded and settled under its lease."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from ..core import states
from ..core.effects import DONE
from ..core.keys import key as derive
from ..errors import Error, InDoubt, LeaseLost, RunEnded, UsageError
from ..ledger.chain import clean
from ..ledger.writer import Writer
from ..system import clock
from .effects import apart
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..ledger.ledger import Ledger
    from .lease import Lease

RESULT = derive("result of the run")[:32]  # the digest its result stands under, among its steps

_ENDS = (states.SUCCEEDED, states.FAILED, states.NEEDS_ATTENTION)


class Inner:
    def __init__(
        self, lease: Lease, ledger: Ledger, writer: Writer, folder: str, redacted: Callable[[str], str]
    ) -> None:
        self._lease, self._ledger, self._folder, self._redacted = lease, ledger, folder, redacted
        self._around, self._inside = writer.run, ledger.inside(writer)
        self._open: dict[str, tuple[Writer, Recorder, float]] = {}
        # Where all share the ledger, its verdict says that a key is done, and the done key may follow.
        self._settling = None if apart(lease.store, ledger) else _Settling(self._settle)
        self._reap()

    def recorder(self, run: str) -> Recorder:
        if run not in self._open:
            raise UsageError(f"the run {run} is not open here")
        return self._open[run][1]

    def open(self, key: str) -> dict[str, Any]:
        """Begin the key's next attempt, unless it is done. Raises `InDoubt` if a person has to decide first."""
        self._lease.check()
        done = self._lease.store.look(self._around.job, key)
        begun = self._inside.begin(key, self._lease.holder)
        if isinstance(begun, Writer):
            if done:
                self._inside.finish(begun, states.SUCCEEDED, reason="settled before its holder died", elapsed=0.0)
                return {"state": DONE, "result": ""}
            made = Recorder(self._ledger, begun, self._folder, self._redacted)
            self._open[begun.run.id] = begun, made, clock.now()
            return {"state": "begun", "run": begun.run.id, "attempt": begun.run.attempt}
        if states.needs_person(begun.state):
            raise InDoubt(
                f"{begun.job} ({key}) is {begun.state}: {begun.reason}. Look: nightlatch show {begun.id}; then decide: "
                f"nightlatch resolve {begun.id}"
            )
        if not done:
            self._settle(key, begun.id)  # its holder died between the two records
        scope = self._ledger.steps.scope_of(begun.id, before=True)
        return {"state": DONE, "result": self._ledger.steps.result(scope, RESULT)}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """End it, and mark its key done."""
        state, run = request["state"], str(request["run"])
        if state not in _ENDS:
            raise ValueError(f"a run cannot end as {state!r} here")
        self.recorder(run)
        writer, recorder, started = self._open.pop(run)
        steps = []
        if state == states.SUCCEEDED:
            if self._settling is None:
                self._settle(writer.run.key, run)
            at = int(clock.wall() * 1000)
            result = str(request.get("result") or "")
            steps = [(recorder.scope, RESULT, "result", DONE, 1, run, writer.run.attempt, 0, result, "", at)]
        if request.get("traceback"):
            writer.event("exception", traceback=self._redacted(str(request["traceback"])))
        reason = clean(self._redacted(str(request.get("reason") or "")))
        self._inside.finish(writer, state, reason=reason, elapsed=clock.now() - started, steps=steps)
        if state == states.SUCCEEDED and self._settling:
            self._settling.add(writer.run.key, run)
        return {}

    def abandon(self) -> None:
        """The process that handled them is gone."""
        for writer, _, started in self._open.values():
            try:
                self._inside.finish(
                    writer, states.FAILED, reason="its process ended in the middle of it", elapsed=clock.now() - started
                )
            except (Error, LeaseLost):
                continue
        self._open.clear()
        if self._settling:
            self._settling.wait()

    def _settle(self, key: str, run: str) -> None:
        self._lease.store.settle(self._lease.name, self._lease.grant, self._around.job, key, value=run)

    def _reap(self) -> None:
        """What an earlier holder of this lease left behind: some of it may never be asked for again."""
        for run in self._ledger.runs(job=self._around.job, state=states.RUNNING):
            if run.parent and run.grant != self._lease.grant:
                try:
                    self._ledger.reap(run.id, token=self._around.token, grant=self._lease.grant)
                except RunEnded:
                    continue


class _Settling:
    """Marks keys done in a thread of its own, one after the other, while the work goes on."""

    def __init__(self, settle: Callable[[str, str], None]) -> None:
        self._settle = settle
        self._mutex, self._idle = allocate_lock(), allocate_lock()
        self._todo: list[tuple[str, str]] = []

    def add(self, key: str, run: str) -> None:
        with self._mutex:
            self._todo.append((key, run))
            if self._idle.acquire(blocking=False):
                start_new_thread(self._work, ())

    def wait(self) -> None:
        with self._idle:
            pass

    def _work(self) -> None:
        while True:
            with self._mutex:
                if not self._todo:
                    self._idle.release()
                    return
                key, run = self._todo.pop(0)
            try:
                self._settle(key, run)
            except (Error, LeaseLost):
                continue  # the ledger knows it; whoever asks for the key again puts it right
