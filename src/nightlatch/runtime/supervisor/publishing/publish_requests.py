"""Publishes and pushes that a run's command requests: the supervisor has the lease, the store and the journal.

Each is an effect, like what a run publishes at its end: the intent is journaled before the write through the gate, and
the outcome after it. If the next attempt gets the same request, it first checks whether the content has landed.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from ....errors import Error, LeaseLost, StaleToken, Stop, UsageError
from ....ledger import kinds
from ....system import clock
from ...shared.replies import DeferredReply
from .publish import earlier_intents, land
from .requested_targets import RequestedPush, RequestedReplace
from .targets import CommandFolder, Publisher
from .workspace import enclosing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from .targets import Facts

BY = "command"  # marks these publishes in the journal

# Seconds to wait for unfinished writes after the command's end; then they are left to the next attempt.
_PATIENCE = 60.0


class PublishRequests:
    """One thread at a time writes to a target, so that its intents and outcomes alternate in the journal."""

    def __init__(self, lease: Lease, ledger: Ledger, writer: Writer) -> None:
        run = writer.run
        self._lease, self._ledger, self._writer = lease, ledger, writer
        self._publisher = Publisher(lease=lease, run=run.id, job=run.job, done=None)
        self._mutex = allocate_lock()
        self._turns: dict[str, LockType] = {}  # by the gate's URL
        self._busy: set[LockType] = set()  # one for each request under way, held until it is answered
        self._pushed: dict[str, str | None] = {}  # by the gate's URL, the last commit that landed; None: unknown
        self._earlier: tuple[dict[str, Facts], dict[str, str]] | None = None  # of earlier attempts; None: not read yet

    def defer(self, verb: str, request: dict[str, Any]) -> DeferredReply:
        busy = allocate_lock()
        busy.acquire()
        self._busy.add(busy)

        def make() -> dict[str, Any]:
            try:
                return self._answer(verb, request)
            finally:
                self._busy.discard(busy)
                busy.release()

        return DeferredReply(make)

    def finish(self) -> None:
        """The command has ended: wait until its requests have landed or been refused, before the run is judged."""
        until = clock.now() + _PATIENCE
        for busy in tuple(self._busy):
            busy.acquire(timeout=max(until - clock.now(), 0.0))

    def _answer(self, verb: str, request: dict[str, Any]) -> dict[str, Any]:
        target = _push_target(request, self._lease) if verb == "push" else _replace_target(request)
        try:
            return self._write(target)
        finally:
            if isinstance(target, RequestedReplace):
                target.close()

    def _write(self, target: RequestedReplace | RequestedPush) -> dict[str, Any]:
        url, run = target.gate.url, self._writer.run
        try:
            self._lease.check()
            with self._turn(url):
                landed = self._push(target) if isinstance(target, RequestedPush) else self._publish(target)
        except (StaleToken, LeaseLost) as refused:
            self._ledger.journal.note_refusal(run.job, run.id, run.attempt, self._lease.token, url, refused)
            raise
        except (Error, Stop):
            raise
        except Exception as error:  # the command waits for a reply, whatever went wrong
            raise Error(f"{url} could not be written: {error}") from error
        return {"gate": url, "lease": self._lease.name, "token": self._lease.token, "landed": landed}

    def _publish(self, target: RequestedReplace) -> str:
        before, outcome = self._earlier_intent(target.gate.url)
        if before and target.adopts(before, outcome, self._publisher):
            self._adopt(target, before)
            return target.current_release()
        return land([target], CommandFolder(path=""), self._writer, self._publisher, BY)[0][2]

    def _push(self, target: RequestedPush) -> str:
        """The commit that landed; "" if its key is done."""
        url = target.gate.url
        if target.done and self._lease.store.look(*target.done):
            return ""
        before, outcome = self._earlier_intent(url)
        if before and target.adopts(before, outcome, self._publisher):
            self._adopt(target, before)
            return ""
        last = self._pushed.get(url, "")
        target.since, target.unsure = last or "", last is None
        self._pushed[url] = None
        landed = land(
            [target], CommandFolder(path=target.folder, guard=target.guard), self._writer, self._publisher, BY
        )[0][2]
        self._pushed[url] = landed or last
        return landed

    def _adopt(self, target: RequestedReplace | RequestedPush, before: Facts) -> None:
        self._writer.event(kinds.PUBLISHED, attempt=before["attempt"], by=BY, target=target.gate.url, adopted=True)

    def _earlier_intent(self, url: str) -> tuple[Facts | None, str]:
        """What an earlier attempt was about to publish there, and what became of that."""
        if self._writer.run.attempt == 1:
            return None, ""
        with self._mutex:
            if self._earlier is None:
                # Read before this attempt writes its first intent, so only earlier attempts are in it.
                self._earlier = earlier_intents(self._ledger, self._writer.run.id, BY)
        intents, outcomes = self._earlier
        return intents.get(url), outcomes.get(url, "")

    def _turn(self, url: str) -> LockType:
        with self._mutex:
            return self._turns.setdefault(url, allocate_lock())


def _replace_target(request: dict[str, Any]) -> RequestedReplace:
    source, target, keep = request.get("source"), str(request["target"]), request.get("keep")
    beneath = str(request.get("beneath") or "")
    for path in (source, beneath or None, target if "://" not in target else None):
        if path is not None and not os.path.isabs(str(path)):
            raise UsageError(f"{path}: the path must be absolute, since the supervisor works in another folder")
    if keep is not None and int(keep) < 1:
        raise UsageError("--keep counts the release just published too: write 1 or more")
    adopt = bool(request.get("adopt"))
    return RequestedReplace(None if source is None else str(source), target, keep=keep, adopt=adopt, beneath=beneath)


def _push_target(request: dict[str, Any], lease: Lease) -> RequestedPush:
    folder, key = str(request["folder"]), request.get("key")
    if not os.path.isabs(folder):
        raise UsageError(f"{folder}: the path must be absolute, since the supervisor works in another folder")
    done = (str(request.get("scope") or lease.name), str(key)) if key else None
    workspace = enclosing(lease.store.folder, folder)
    return RequestedPush(
        folder, str(request.get("remote") or "origin"), str(request.get("branch") or ""), done, workspace
    )
