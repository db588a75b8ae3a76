"""Runs inside a run, on the supervisor's side: begun, recorded and settled under its lease."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from ....core import advice, statuses
from ....core.effects import DONE
from ....core.keys import key as derive
from ....errors import Error, InDoubt, RunEnded, Stop, StoreUnreachable, UsageError
from ....ledger.chain import clean
from ....ledger.nested import MOST, NestedRun
from ....system import clock
from ..effect_records import ledger_is_per_machine
from ..replies import refusal
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ....core.model import Holder
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.nested import PendingWrite
    from ....ledger.records import RunRow

    class HeldLease(Protocol):
        """A lease, as far as it is needed here."""

        name: str
        grant: str
        holder: Holder
        store: Store

        def check(self) -> None: ...


RESULT = derive("result of the run")[:32]  # the digest its result stands under, among its steps

_GATHER = 0.1  # seconds in which done keys come together
_WAIT = 0.05  # seconds that a beginning waits for the first step, or the end, to be written with it
_AGAIN = 1.0  # and after it could not be written
_GONE = "its process ended in the middle of it"
_ENDS = (statuses.SUCCEEDED, statuses.FAILED, statuses.NEEDS_ATTENTION)


class NestedRuns:
    """Any thread may call it."""

    def __init__(
        self, lease: HeldLease, ledger: Ledger, around: RunRow, folder: str, redacted: Callable[[str], str]
    ) -> None:
        self._lease, self._ledger, self._folder, self._redacted = lease, ledger, folder, redacted
        self._around, self._inside = around, ledger.nested_runs(around)
        self._mutex = allocate_lock()  # for what is written
        # By run, as it was called when it was begun: somebody may open one for the key, by hand, before it is written.
        self._open: dict[str, _OpenRun] = {}
        self._keys: dict[str, object] = {}  # that are being worked on
        # Where all share the ledger, its verdict says that a key is done, and the done key may follow.
        self._settling = None if ledger_is_per_machine(lease.store, ledger) else _Settling(self._settle)
        self._reap()

    def recorder(self, run: str) -> Recorder:
        return self._find(run).recorder

    def open(self, key: str) -> dict[str, Any]:
        """Begin the key's next attempt, unless it is done. Raises `InDoubt` if a person has to decide first."""
        self._lease.check()
        mine = object()
        if self._keys.setdefault(clean(key), mine) is not mine:
            raise UsageError(f"the key {key} of {self._around.job} is being worked on in this very run")
        reply: dict[str, Any] = {}
        try:
            reply = self._begin(key)
        finally:
            if reply.get("status") != "begun":
                del self._keys[clean(key)]
        return reply

    def _begin(self, key: str) -> dict[str, Any]:
        done = self._lease.store.look(self._around.job, key)
        begun = self._inside.begin(key, self._lease.holder)
        if isinstance(begun, NestedRun):
            if done:
                why = "its key is done already"
                with self._mutex:
                    self._inside.commit([begun.ending(statuses.SUCCEEDED, reason=why, elapsed=0.0)])
                return {"status": DONE, "result": ""}
            recorder = Recorder(self._ledger, begun, self._folder, self._redacted)
            self._open[begun.run.id] = _OpenRun(begun, recorder)
            return {"status": "begun", "run": begun.run.id, "attempt": begun.run.attempt}
        if statuses.needs_person(begun.status):
            raise InDoubt(
                f"{begun.job} ({key}) is {begun.status}: {begun.reason}. Look: {advice.command('show', begun.id)}; "
                f"then decide: {advice.command('resolve', begun.id)}"
            )
        if not done:
            self._settle({key: begun.id})  # its holder died between the two records
        log = self._ledger.step_log
        return {"status": DONE, "result": log.result(log.chain_of(begun.id, before=True), RESULT)}

    def record(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Steps and ends of several, an answer for each: what can be written together is one commit."""
        with self._mutex:
            return self._record(requests)

    def _record(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = [{"ok": True} for _ in requests]
        waiting: list[tuple[int, str, PendingWrite]] = []
        for place, request in enumerate(requests):
            # Two words on one run: one after the other.
            if len(waiting) == MOST or any(name == request["run"] for _, name, _ in waiting):
                self._commit(waiting, answers)
            try:
                due = self._due(request)
            except (Error, Stop, ValueError, TypeError, KeyError) as error:
                answers[place] = refusal(error)
            else:
                waiting += [(place, request["run"], due)] if due else []
        self._commit(waiting, answers)
        return answers

    def tick(self, now: float) -> float:
        """Write the beginnings that have waited for long enough; returns when to look again."""
        unwritten = [one for one in list(self._open.values()) if one.run.unwritten]
        if any(now >= one.write_at for one in unwritten):
            with self._mutex:
                late = [one for one in unwritten if one.run.unwritten and now >= one.write_at][:MOST]
                try:
                    # Lazily: the first step, or the end, brings it to the disk, and without them nothing is promised.
                    # (A server may forget it while we live on.)
                    self._inside.commit([one.run.beginning() for one in late], lazy=not self._ledger.many_machines)
                except (Error, Stop):  # as its first step will find out, and say
                    for one in late:
                        one.write_at = now + _AGAIN
        return min((one.write_at for one in unwritten if one.run.unwritten), default=float("inf"))

    def abandon(self, *, child_writes: bool) -> None:
        """The process that worked on them is gone. `child_writes`: it may have written some of them itself."""
        for one in self._open.values():
            elapsed = clock.now() - one.started
            try:
                self._inside.commit([one.run.ending(statuses.FAILED, reason=_GONE, elapsed=elapsed)])
            except (Error, Stop):
                continue
        self._open.clear()
        if child_writes:
            self._sweep()
        if self._settling:
            self._settling.wait()

    def _sweep(self) -> None:
        """What it had begun is ended, and what it has done is marked so: it may not have come to it."""
        for run in self._ledger.nested_in(self._around):
            if run.status == statuses.RUNNING:
                try:
                    writer = self._ledger.seal(run.id, token=run.token, grant=run.grant, holder=run.holder)
                    writer.finish(statuses.FAILED, exit_code=1, reason=_GONE)
                except (Error, Stop):
                    continue
            elif run.status == statuses.SUCCEEDED and self._settling:
                self._settling.add(run.key, run.id)

    def is_open(self, run: str) -> bool:
        return run in self._open

    def _find(self, run: str) -> _OpenRun:
        if run not in self._open:
            raise UsageError(f"the run {run} is not open here")
        return self._open[run]

    def _due(self, request: dict[str, Any]) -> PendingWrite | None:
        """What has to be written for a request; None if that is done."""
        one = self._find(str(request["run"]))
        if request["do"] == "step":
            if one.run.unwritten:
                return one.run.beginning(one.recorder.steps([request]))
            one.recorder.write([request])
            return None
        status, steps = request["status"], []
        if status not in _ENDS:
            raise ValueError(f"a run cannot end as {status!r} here")
        if status == statuses.SUCCEEDED:
            if self._settling is None:
                self._settle({one.run.run.key: one.run.run.id})
            steps = one.recorder.steps([{"steps": [[RESULT, "result", DONE, 1, request.get("result") or "", ""]]}])
        reason, traceback = (self._redacted(str(request.get(word) or "")) for word in ("reason", "traceback"))
        elapsed = clock.now() - one.started
        return one.run.ending(status, reason=clean(reason), elapsed=elapsed, steps=steps, traceback=traceback)

    def _commit(self, waiting: list[tuple[int, str, PendingWrite]], answers: list[dict[str, Any]]) -> None:
        """Write what waits, and let it go; for what cannot be written there is another answer."""
        try:
            self._inside.commit([due for *_, due in waiting])
        except (Error, Stop) as error:
            if len(waiting) == 1:
                answers[waiting[0][0]] = refusal(error)
            else:
                for one in waiting:  # one of them is no good; the others are
                    self._commit([one], answers)
        else:
            for _, name, _ in waiting:
                self._written(name)
        waiting.clear()

    def _written(self, name: str) -> None:
        run = self._open[name].run.run
        if run.status != statuses.RUNNING:
            del self._open[name], self._keys[run.key]
            if run.status == statuses.SUCCEEDED and self._settling:
                self._settling.add(run.key, run.id)

    def _settle(self, keys: dict[str, str]) -> None:
        """Mark keys done; each has its run as its value."""
        self._lease.store.settle_many(self._lease.name, self._lease.grant, self._around.job, keys)

    def _reap(self) -> None:
        """What an earlier holder of this lease left behind: some of it may never be asked for again."""
        for run in self._ledger.runs(job=self._around.job, status=statuses.RUNNING):
            if run.parent and run.grant != self._lease.grant:
                try:
                    self._ledger.reap(run.id, token=self._around.token, grant=self._lease.grant)
                except RunEnded:
                    continue


class _OpenRun:
    """One that is being worked on."""

    def __init__(self, run: NestedRun, recorder: Recorder) -> None:
        self.run, self.recorder, self.started = run, recorder, clock.now()
        self.write_at = self.started + _WAIT


class _Settling:
    """Marks keys done in a thread of its own, those that come within a moment at once, while the work goes on."""

    def __init__(self, settle: Callable[[dict[str, str]], None]) -> None:
        self._settle = settle
        self._mutex, self._idle, self._hurry = allocate_lock(), allocate_lock(), allocate_lock()
        self._todo: dict[str, str] = {}  # key → run
        self._hurry.acquire()

    def add(self, key: str, run: str) -> None:
        with self._mutex:
            self._todo[key] = run
            if self._idle.acquire(blocking=False):
                start_new_thread(self._work, ())

    def wait(self) -> None:
        """No more will come: return when all is done."""
        self._hurry.release()
        with self._idle:
            pass

    def _work(self) -> None:
        while True:
            if self._hurry.acquire(timeout=_GATHER):
                self._hurry.release()
            with self._mutex:
                todo, self._todo = self._todo, {}
                if not todo:
                    self._idle.release()
                    return
            try:
                self._settle(todo)
            except StoreUnreachable:
                if self._hurry.locked():  # tried again, while there is time
                    with self._mutex:
                        self._todo = todo | self._todo
            except (Error, Stop):
                continue  # the ledger knows them; whoever asks for such a key again puts it right
