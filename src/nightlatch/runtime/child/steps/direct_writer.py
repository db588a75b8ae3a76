"""The ledger, opened by the job itself: it writes its steps and nested runs as the supervisor would."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING, Any

from ....core import statuses
from ....errors import Error
from ....ledger import location, step_log
from ....ledger.group_commit import GroupCommit
from ....store import url
from ....system import clock
from ....system.durable import inode
from ...shared.client import checked, send

if TYPE_CHECKING:
    from ....core.model import Holder
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ....ledger.step_log import Step

_REPORT_EVERY = 0.25  # seconds between two reports to the supervisor that the work goes on
_COUNT_EVERY = 1.0  # seconds between two reports of how far a map is


def open_writer(reply: dict[str, str]) -> DirectWriter | None:
    """The writer; None if the ledger cannot be opened from here, in a sandbox for example."""
    address = reply["ledger"]
    if inode(address) != reply["inode"]:
        return None
    try:
        ledger = location.at(address)
        run = ledger.run(os.environ["NIGHTLATCH_RUN"])
    except (Error, ImportError):
        return None
    is_ours = run and run.status == statuses.RUNNING and os.environ["NIGHTLATCH_SOCKET"].endswith("/" + run.grant[:24])
    return DirectWriter(ledger, run, reply["store"]) if run and is_ours else None


class DirectWriter:
    def __init__(self, ledger: Ledger, run: RunRow, store: str) -> None:
        self._steps: GroupCommit[Step] = GroupCommit(ledger.step_writer(run).append)
        self._ledger, self._run, self._store = ledger, run, store
        self._mutex = allocate_lock()
        self._nested_writer: _NestedWriter | None = None
        self._reported_at = self._counted_at = clock.now()

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply, once the request is recorded; None if the supervisor has to record it."""
        if request["do"] == "step" and not request.get("run"):
            steps = [step_log.step(*step) for step in request["steps"]]
            if any([reason for *_, reason in steps]):
                return None  # through the supervisor, which knows what to redact
            self._steps.take(*steps)
            reply: dict[str, Any] | None = {}
        else:
            nested = self._store and (request["do"] == "open" or request["run"])
            reply = self._nested.write(request) if nested else None
        if reply is not None:
            self._report(request)
        return reply

    @property
    def _nested(self) -> _NestedWriter:
        with self._mutex:
            if self._nested_writer is None:
                self._nested_writer = _NestedWriter(self._ledger, self._run, url.connect(self._store))
            return self._nested_writer

    def _report(self, request: dict[str, Any]) -> None:
        """Report to the supervisor how far a map is, or at least that the work goes on, so that it sees no stall."""
        now = clock.now()
        if request.get("of") and (now - self._counted_at > _COUNT_EVERY or request["last"]):
            self._counted_at = self._reported_at = now
            send(do="progress", done=request["done"], total=request["of"], message=request["message"])
        elif now - self._reported_at > _REPORT_EVERY:
            self._reported_at = now
            send(do="moved")


class _NestedWriter:
    """Writes the nested runs of this process's threads."""

    def __init__(self, ledger: Ledger, run: RunRow, store: Store) -> None:
        from ....system import redaction
        from ...shared.steps.nested_runs import NestedRuns

        self._runs = NestedRuns(
            _RunLease(run, store), ledger, run, os.path.dirname(os.environ["NIGHTLATCH_SOCKET"]),
            redaction.secrets(os.environ).text,
        )  # fmt: skip
        self._commits: GroupCommit[_WaitingRequest] = GroupCommit(self._record)
        self._wake = allocate_lock()
        self._wake.acquire()
        start_new_thread(self._write_beginnings, ())

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        from ...shared.replies import reply

        if request["do"] == "open":
            begun = reply(lambda _: self._runs.open(request["key"]), {})
            if self._wake.locked():
                self._wake.release()
            return checked(begun)
        if not self._runs.is_open(request["run"]):
            return None  # the supervisor has opened it
        if request["do"] == "known":
            return checked(reply(lambda _: self._runs.recorder(request["run"]).known(), {}))
        waiting = _WaitingRequest(request)
        self._commits.take(waiting)
        return checked(waiting.reply)

    def _record(self, several: Any) -> None:
        for one, reply in zip(several, self._runs.record([one.request for one in several]), strict=True):
            one.reply = reply

    def _write_beginnings(self) -> None:
        """In a thread: write beginnings of nested runs that have waited long enough."""
        while True:
            self._wake.acquire()
            while (next_at := self._runs.tick(clock.now())) < float("inf"):
                time.sleep(max(next_at - clock.now(), 0.005))


class _WaitingRequest:
    """A request that waits to be written."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.reply = request, dict[str, Any]()


class _RunLease:
    """The run's lease, as a process of the run sees it."""

    def __init__(self, run: RunRow, store: Store) -> None:
        self.name, self.grant, self.store = run.job, run.grant, store
        self.holder: Holder = run.holder

    def check(self) -> None:
        """Does nothing: every write checks that the lease is still held."""
