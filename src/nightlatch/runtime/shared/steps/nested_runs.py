"""Nested runs: begun, recorded and settled under the lease of the outer run."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from ....core import advice, statuses
from ....core.effects import DONE
from ....core.keys import key as derive
from ....errors import Error, InDoubt, RunEnded, Stop, StoreUnreachable, UsageError
from ....ledger.chain import clean
from ....ledger.nested import MOST, NestedRun, PendingWrite
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
    from ....ledger.records import RunRow

    class HeldLease(Protocol):
        """What this module needs of a lease."""

        name: str
        grant: str
        holder: Holder
        store: Store

        def check(self) -> None: ...


RESULT = derive("result of the run")[:32]  # the digest of a nested run's result, among its steps

_GATHER = 0.1  # seconds for which done keys are collected
_WAIT = 0.05  # seconds that a beginning waits to be written together with the first step or the end
_AGAIN = 1.0  # seconds until the next try after a failed write
_GONE = "its process ended in the middle of it"
_ENDS = (statuses.SUCCEEDED, statuses.FAILED, statuses.NEEDS_ATTENTION)


class NestedRuns:
    """All nested runs of one run. Any thread may call it."""

    def __init__(
        self, lease: HeldLease, ledger: Ledger, outer: RunRow, folder: str, redacted: Callable[[str], str]
    ) -> None:
        self._lease, self._ledger, self._folder, self._redacted = lease, ledger, folder, redacted
        self._outer, self._rows = outer, ledger.nested_runs(outer)
        self._mutex = allocate_lock()  # for writes
        # By the id with which the run was begun: until it is written, a person may open another run for its key.
        self._open: dict[str, _OpenRun] = {}
        self._keys: dict[str, object] = {}  # keys that are being worked on
        # With a shared ledger the verdict there says that a key is done, and the done key may follow later.
        self._settling = None if ledger_is_per_machine(lease.store, ledger) else _Settling(self._settle)
        self._reap()

    def recorder(self, run: str) -> Recorder:
        return self._find(run).recorder

    def open(self, key: str) -> dict[str, Any]:
        """Begin the key's next attempt, unless it is done. Raises `InDoubt` if a person has to decide first."""
        self._lease.check()
        mine = object()
        if self._keys.setdefault(clean(key), mine) is not mine:
            raise UsageError(f"the key {key} of {self._outer.job} is already being worked on in this run")
        reply: dict[str, Any] = {}
        try:
            reply = self._begin(key)
        finally:
            if reply.get("status") != "begun":
                del self._keys[clean(key)]
        return reply

    def _begin(self, key: str) -> dict[str, Any]:
        done = self._lease.store.look(self._outer.job, key)
        begun = self._rows.begin(key, self._lease.holder)
        if isinstance(begun, NestedRun):
            if done:
                why = "its key is done already"
                with self._mutex:
                    self._rows.commit([begun.ending(statuses.SUCCEEDED, reason=why, elapsed=0.0)])
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
        """Write steps and ends of several runs in as few commits as possible; returns a reply for each request."""
        with self._mutex:
            return self._record(requests)

    def _record(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        replies: list[dict[str, Any]] = [{"ok": True} for _ in requests]
        pending: list[tuple[int, str, PendingWrite]] = []
        for index, request in enumerate(requests):
            # Two requests about one run are written one after the other.
            if len(pending) == MOST or any(name == request["run"] for _, name, _ in pending):
                self._commit(pending, replies)
            try:
                write = self._write_for(request)
            except (Error, Stop, ValueError, TypeError, KeyError) as error:
                replies[index] = refusal(error)
            else:
                pending += [(index, request["run"], write)] if write else []
        self._commit(pending, replies)
        return replies

    def tick(self, now: float) -> float:
        """Write the beginnings that have waited long enough; returns when to call this again."""
        unwritten = [one for one in list(self._open.values()) if one.run.unwritten]
        if any(now >= one.write_at for one in unwritten):
            with self._mutex:
                late = [one for one in unwritten if one.run.unwritten and now >= one.write_at][:MOST]
                try:
                    # Not durably: the first step or the end makes it so, and nothing is promised before. (A server
                    # could lose a beginning while we go on, so there it is durable at once.)
                    self._rows.commit([one.run.beginning() for one in late], lazy=not self._ledger.many_machines)
                except (Error, Stop):  # the run's first step will raise the same error
                    for one in late:
                        one.write_at = now + _AGAIN
        return min((one.write_at for one in unwritten if one.run.unwritten), default=float("inf"))

    def abandon(self, *, child_writes: bool) -> None:
        """End the open runs: the process that worked on them is gone. `child_writes`: it may have written some."""
        for one in self._open.values():
            elapsed = clock.now() - one.started
            try:
                self._rows.commit([one.run.ending(statuses.FAILED, reason=_GONE, elapsed=elapsed)])
            except (Error, Stop):
                continue
        self._open.clear()
        if child_writes:
            self._sweep()
        if self._settling:
            self._settling.wait()

    def _sweep(self) -> None:
        """End the runs that the child left running; mark the keys of those that it finished as done."""
        for run in self._ledger.history.nested_in(self._outer):
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

    def _write_for(self, request: dict[str, Any]) -> PendingWrite | None:
        """The write that a request still needs; None if it is already written."""
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

    def _commit(self, pending: list[tuple[int, str, PendingWrite]], replies: list[dict[str, Any]]) -> None:
        """Write what is pending; a request that cannot be written gets a refusal as its reply."""
        try:
            self._rows.commit([write for *_, write in pending])
        except (Error, Stop) as error:
            if len(pending) == 1:
                replies[pending[0][0]] = refusal(error)
            else:
                for one in pending:  # one of them is bad; the others are fine
                    self._commit([one], replies)
        else:
            for _, name, _ in pending:
                self._close_if_ended(name)
        pending.clear()

    def _close_if_ended(self, name: str) -> None:
        run = self._open[name].run.run
        if run.status != statuses.RUNNING:
            del self._open[name], self._keys[run.key]
            if run.status == statuses.SUCCEEDED and self._settling:
                self._settling.add(run.key, run.id)

    def _settle(self, keys: dict[str, str]) -> None:
        """Mark keys done; each key's value is its run."""
        self._lease.store.settle_many(self._lease.name, self._lease.grant, self._outer.job, keys)

    def _reap(self) -> None:
        """End the runs that an earlier holder left running: perhaps their keys are never opened again."""
        for run in self._ledger.history.runs(job=self._outer.job, status=statuses.RUNNING):
            if run.parent and run.grant != self._lease.grant:
                try:
                    self._ledger.reap(run.id, token=self._outer.token, grant=self._lease.grant)
                except RunEnded:
                    continue


class _OpenRun:
    """A nested run that is being worked on."""

    def __init__(self, run: NestedRun, recorder: Recorder) -> None:
        self.run, self.recorder, self.started = run, recorder, clock.now()
        self.write_at = self.started + _WAIT


class _Settling:
    """Marks keys done in the background, several in one call if they come within a moment."""

    def __init__(self, settle: Callable[[dict[str, str]], None]) -> None:
        self._settle = settle
        self._mutex = allocate_lock()
        self._idle = allocate_lock()  # held while the thread works
        self._hurry = allocate_lock()  # held until `wait` is called
        self._todo: dict[str, str] = {}  # key → run
        self._hurry.acquire()

    def add(self, key: str, run: str) -> None:
        with self._mutex:
            self._todo[key] = run
            if self._idle.acquire(blocking=False):
                start_new_thread(self._work, ())

    def wait(self) -> None:
        """No more keys will come: return when all are marked."""
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
                if self._hurry.locked():  # `wait` was not called: there is time to try again
                    with self._mutex:
                        self._todo = todo | self._todo
            except (Error, Stop):
                continue  # the ledger has them as done; the next `open` of such a key marks it
