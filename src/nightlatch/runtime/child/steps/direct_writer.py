"""An open ledger in the hands of a job: its steps, and its runs inside the run, as the supervisor would write them."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING, Any

from ....core import statuses
from ....errors import Error
from ....ledger import location, step_log
from ....ledger.group_commit import GroupCommit
from ....system import clock
from ....system.durable import inode
from ...shared.client import judged, tell

if TYPE_CHECKING:
    from ....core.model import Holder
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ....ledger.step_log import Step

_TELL_EVERY = 0.25  # seconds between two words to the supervisor that all goes on
_COUNT_EVERY = 1.0  # and on how far a map is


def opened(told: dict[str, str]) -> Lent | None:
    """None if the ledger cannot be opened from here: a sandbox may stand between."""
    address = told["ledger"]
    if inode(address) != told["inode"]:
        return None
    try:
        ledger = location.at(address)
        run = ledger.run(os.environ["NIGHTLATCH_RUN"])
    except (Error, ImportError):
        return None
    mine = run and run.status == statuses.RUNNING and os.environ["NIGHTLATCH_SOCKET"].endswith("/" + run.grant[:24])
    return Lent(ledger, run, told["store"]) if run and mine else None


class Lent:
    """An open ledger, and what is written to it."""

    def __init__(self, ledger: Ledger, run: RunRow, store: str) -> None:
        self._steps: GroupCommit[Step] = GroupCommit(ledger.step_writer(run).append)
        self._ledger, self._run, self._store = ledger, run, store
        self._mutex = allocate_lock()
        self._inside: _Inside | None = None
        self._told_at = self._counted_at = clock.now()

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        if request["do"] == "step" and not request.get("run"):
            steps = [step_log.step(*step) for step in request["steps"]]
            if any([reason for *_, reason in steps]):
                return None  # it is told to the supervisor, who knows which words are secret
            self._steps.take(*steps)
            answer: dict[str, Any] | None = {}
        else:
            inside = self._store and (request["do"] == "open" or request["run"])
            answer = self._inner.write(request) if inside else None
        if answer is not None:
            self._tell(request)
        return answer

    @property
    def _inner(self) -> _Inside:
        with self._mutex:
            if self._inside is None:
                from ....store import url

                self._inside = _Inside(self._ledger, self._run, url.connect(self._store))
            return self._inside

    def _tell(self, request: dict[str, Any]) -> None:
        """That it goes on, for the watch; how far a map is, for people who look."""
        now = clock.now()
        if request.get("of") and (now - self._counted_at > _COUNT_EVERY or request["done"] == request["of"]):
            self._counted_at = self._told_at = now
            tell(do="progress", done=request["done"], total=request["of"], message=request["message"])
        elif now - self._told_at > _TELL_EVERY:
            self._told_at = now
            tell(do="moved")


class _Inside:
    """Runs inside the run, handled by the threads of this process."""

    def __init__(self, ledger: Ledger, run: RunRow, store: Store) -> None:
        from ....system import redaction
        from ...shared.steps.nested_runs import Inner

        self._inner = Inner(
            _Hold(run, store), ledger, run, os.path.dirname(os.environ["NIGHTLATCH_SOCKET"]),
            redaction.secrets(os.environ).text,
        )  # fmt: skip
        self._turns: GroupCommit[_Word] = GroupCommit(self._record)
        self._wake = allocate_lock()
        self._wake.acquire()
        start_new_thread(self._keep_time, ())

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        from ...shared.replies import reply

        if request["do"] == "open":
            answer = reply(lambda _: self._inner.open(request["key"]), {})
            if self._wake.locked():
                self._wake.release()
            return judged(answer)
        if not self._inner.is_open(request["run"]):
            return None  # the supervisor has opened it
        if request["do"] == "known":
            return judged(reply(lambda _: self._inner.recorder(request["run"]).known(), {}))
        word = _Word(request)
        self._turns.take(word)
        return judged(word.answer)

    def _record(self, words: Any) -> None:
        for word, answer in zip(words, self._inner.record([word.request for word in words]), strict=True):
            word.answer = answer

    def _keep_time(self) -> None:
        """Beginnings that have waited are written."""
        while True:
            self._wake.acquire()
            while (again := self._inner.tick(clock.now())) < float("inf"):
                time.sleep(max(again - clock.now(), 0.005))


class _Word:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.answer = request, dict[str, Any]()


class _Hold:
    """The lease as a process of its run has it."""

    def __init__(self, run: RunRow, store: Store) -> None:
        self.name, self.grant, self.store = run.job, run.grant, store
        self.holder: Holder = run.holder

    def check(self) -> None:
        """Whether it is held is found out where something is written."""
