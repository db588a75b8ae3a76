"""One attempt, from the seal of the ledger on, which makes it the run's one writer:

    prepare → work (start and attend the command) → publish → settle

Each step is a method, in this order. `watch` ends the attempt from outside, the keeper keeps the lease, and the warden
ends the tree.
"""

from __future__ import annotations

import os

from .... import exits
from ....core import advice, retry, statuses
from ....errors import Conflict, Error, LeaseLost, RunEnded, StaleToken, StoreUnreachable
from ....ledger import kinds
from ....system import clock
from ....system.warden_messages import Ended
from ...shared.job import definition
from ..backoff import pause_seconds, until_recorded
from . import went_in
from .attend import Attendance
from .begin import end_begun
from .ending import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....ledger.records import RunRow
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from .pipeline import Pipeline
    from .waiting import Signals


class SealedAttempt:
    def __init__(self, start: Pipeline, lease: Lease, writer: Writer, number: int) -> None:
        """`number`: which try this is, counted across supervisors."""
        self.start, self.job, self.claim, self.delivery = start, start.job, start.claim, start.delivery
        self.store, self.ledger, self.lease, self.writer = start.store, start.ledger, lease, writer
        self.reported, self.spending = start.reported, start.spending
        self.run, self.number, self.ending = writer.run, number, Ending(start.supervision)
        self.attendance: Attendance | None = None
        self.signals: Signals | None = None  # while the run waits for its next try
        self.unended = ""  # what a person has to do about agents whose end was not confirmed
        self.recovered = ""  # how an earlier attempt's work came to be published
        self.planned = False  # what the command made waits for an approval
        self._folder = os.path.join(self.store.folder, "runs", self.run.id)  # made by what first writes into it

    def make(self) -> tuple[RunRow, int]:
        """Make the attempt. Returns the run as it ended, and the exit code of its start."""
        self.writer.tag = went_in.tag(self.job)
        if self.run.attempt > 1:
            from . import unwritten

            unwritten.recover(self._folder, self.ledger, self.writer)
        # Count once more what was used: another supervisor may have made an attempt while we waited for the lease.
        self.spending.begin(self.run)
        started = clock.now()
        if self.job.ping and not self.run.approved:
            from . import ping

            ping.begin(self.job.ping)
        if self.start.publishes:
            self._guard(self._land_plan)
        elif self.start.edited:
            self._guard(self._refuse_edited)
        elif self._prepare():
            self._guard(lambda: self._work(started))
            self._guard(self._end_agents)
            self._publish()
        return self._settle(clock.now() - started)

    def _refuse_edited(self) -> None:
        again = advice.command("retry", self.run.id)
        raise Conflict(f"the job was edited while it waited for its approval, and was not started. Start it: {again}")

    def _land_plan(self) -> None:
        """The command is not run again: what it made was approved, and lands."""
        if self.delivery is None:
            raise Conflict("the job was edited after its plan was made, and publishes nothing now: nothing lands")
        self.recovered = self.delivery.land_plan(self.lease, self.ledger, self.writer, definition(self.job))
        self.ending.take(Ended())

    # ── prepare ──

    def _prepare(self) -> bool:
        """Record the inputs, make the workspace. False: there is nothing to start, and `ending` says why."""

        def prepare() -> None:
            if self.start.unusable:
                raise self.start.unusable
            if self.job.input:
                from ....system import fingerprint

                for path in self.job.input:
                    self.writer.event(kinds.INPUT, path=os.path.abspath(path), sha256=fingerprint.of(path))
            if self.delivery:
                self.recovered = self.delivery.begin(self.lease, self.ledger, self.writer, self.start.elsewhere)
                if self.recovered:
                    self.ending.take(Ended())

        self._guard(prepare)
        return not self.ending.over

    # ── work ──

    def _work(self, started: float) -> None:
        checkpoints = self.start.checkpoints
        if checkpoints:
            checkpoints.prepare(self.store, self.ledger, self.lease, self.writer, self._folder)
        self.attendance = Attendance(
            self.job,
            self.start.supervision,
            self.lease,
            self.ledger,
            self.writer,
            self.reported,
            self.spending,
            self.ending,
            folder=self._folder,
            variables=self.start.variables,
            delivery=self.delivery,
            checkpoints=checkpoints,
            where=self.start.where,
        )
        self.attendance.set_holding(self.claim is not None and self.claim.holding)
        self.attendance.run(started)

    def _end_agents(self) -> None:
        """End the agents at vendors while the lease is held: only its holder may."""
        if not self.attendance or not self.ending.over or not self.ending.exit_code:
            return
        will_retry = self.number <= self.job.retries and retry.worth_another(statuses.FAILED, self.ending.exit_code)
        self.unended = self.attendance.end_agents(will_retry=will_retry)

    # ── publish ──

    def _publish(self) -> None:
        """Publish the result, if there is one; nothing of the command is left that could still change it."""
        if not self.delivery or self._judge()[0] != statuses.SUCCEEDED:
            return
        if self.claim and self.claim.holding and not self.recovered:
            self._guard(self._hold_writes)
        else:
            self._guard(self.delivery.publish)

    def _hold_writes(self) -> None:
        assert self.delivery
        self.delivery.hold(definition(self.job))
        self.planned = True

    def _guard(self, action: Callable[[], None]) -> None:
        """An error in `action` ends the run, with the reason. A stale token is raised: a newer holder has the run."""
        try:
            action()
        except StaleToken as refused:
            self._note_refusal("result", refused)
            raise
        except LeaseLost as lost:
            self.ending.decide(statuses.LOST, str(lost), lost.exit_code)
        except Error as error:
            status = statuses.NEEDS_ATTENTION if isinstance(error, Conflict) else self._end_after_error()
            self.ending.decide(status, str(error), error.exit_code)
        except Exception as error:
            # A full disk, a removed folder, a bug of ours: a run that nobody ends would need a person.
            if os.environ.get("NIGHTLATCH_DEBUG"):
                raise
            reason = f"Nightlatch could not go on: {type(error).__name__}: {error}"
            self.ending.decide(self._end_after_error(), reason, exits.OURS)

    def _end_after_error(self) -> str:
        """End the command after an error of ours. Returns the status: lost if it was running and may have acted."""
        at_work = self.attendance is not None and self.attendance.began and not self.ending.over
        self.start.supervision.warden.dismiss()
        return statuses.LOST if at_work else statuses.FAILED

    # ── settle ──

    def _settle(self, elapsed: float) -> tuple[RunRow, int]:
        """Mark the key done, and record how the attempt ended: never over the verdict of a newer holder."""
        status, reason = self._judge()
        own, left = 0 if status == statuses.SUCCEEDED else self.ending.exit_code, self.ending.left
        settled = self.delivery is not None and self.delivery.publication.settled
        if status == statuses.SUCCEEDED and not self.planned and not settled:
            until_recorded(self.lease, self._mark_done)
        if left and not reason:
            reason = f"left {left} process{'es' if left > 1 else ''} behind; ended"
        if self.delivery and status != statuses.SUCCEEDED:
            reason = self.delivery.with_workspace(reason)
        exit_code = self.ending.exit_code_as(status, own, self.lease.lost)
        # A lost attempt may have acted.
        doubt = status == statuses.LOST and self.job.when_lost == "doubt"
        pause = None if doubt else self._pause(status, exit_code)
        tries = None if pause is None else self.number
        again_at = None if pause is None else self.writer.now() + pause
        held = self.writer.now() + self.job.expires if self.planned and status == statuses.SUCCEEDED else None
        uncounted = self._count_for_stage(status, reason)
        try:
            ended = until_recorded(
                self.lease,
                lambda: self.writer.finish(
                    status, exit_code=own, reason=reason, elapsed=elapsed, again_at=again_at, doubt=doubt, tries=tries,
                    held=held, uncounted="" if again_at else uncounted,
                ),
            )  # fmt: skip
            if self.run.approved and not ended.approved:
                from ..publishing.held import release

                release(self.ledger, ended.id)
            if ended.status == statuses.WAITING and held is None:
                from .waiting import Signals

                self.signals = Signals(self.start.supervision)
            undelivered = self.delivery if status != statuses.SUCCEEDED else None
            if held is None and not (undelivered and undelivered.publication.may_have_pushed):
                end_begun(self.start, self.lease, ended, earlier=not undelivered or undelivered.checked_earlier)
            if self.delivery:
                self.delivery.end(keep=status != statuses.SUCCEEDED or self.planned)
            if self.spending.days:
                until_recorded(self.lease, self.spending.days.close)
            return ended, exit_code
        except (StaleToken, RunEnded) as refused:
            self._note_refusal(f"verdict {status}", refused)
            raise LeaseLost(
                f"{self.job.name} was taken over while it ran; its end is not recorded over the new holder's. "
                f"Look: {advice.command('show', self.run.id)}",
                reason="taken",
            ) from None

    def _judge(self) -> tuple[str, str]:
        checkpoints = self.start.checkpoints
        done = checkpoints is not None and checkpoints.summary.get("exit_code") == 0
        status, reason = self.ending.judge(self.lease.lost, self.job.timeout, self.reported, done=done)
        if status == statuses.LOST and self.ending.was_interrupted and (canceller := self._cancelled_by()):
            return statuses.CANCELLED, f"cancelled by {canceller}"
        if self.unended and status != statuses.LOST:
            return statuses.NEEDS_ATTENTION, self.unended
        if status != statuses.SUCCEEDED:
            return status, reason
        # A budget that is found exceeded only now does not fail the run: it would be done, and paid for, again.
        cap = self.spending.exceeded()
        note = f"exceeded its budget {cap}" if cap else self.reported.unmetered
        return status, self.recovered or note

    def _cancelled_by(self) -> str | None:
        try:
            return self.writer.cancel_requested()
        except StoreUnreachable:
            return None

    def _mark_done(self) -> None:
        # The end of a claim flushes the key. If the power fails before that, the ledger, where the run has succeeded,
        # keeps it from being done again.
        lazy: dict[str, Any] = {"lazy": True} if self.start.may_write_lazily else {}
        self.store.settle(self.lease.name, self.lease.grant, self.job.name, self.run.key, value=self.run.id, **lazy)

    def _pause(self, status: str, exit_code: int) -> float | None:
        """Seconds until the next try; None: no other try."""
        if self.number > self.job.retries or not retry.worth_another(status, exit_code):
            return None
        if self.start.is_spent(self.writer.run):
            return None
        return pause_seconds(self.number, base=self.job.backoff, at_least=self.reported.retry_after)

    def _count_for_stage(self, status: str, reason: str) -> str:
        """What this end counts for the job's stage: set in the claim, or, for a run by hand, returned as text that the
        ledger keeps until it is counted."""
        own_cap = status == statuses.OVER_BUDGET and any(
            cap.period == "run" and f"budget {cap} " in f"{reason} " for cap in self.spending.caps
        )
        clean = status == statuses.SUCCEEDED and self.run.attempt == 1 and not self.ending.left
        if self.claim:
            self.claim.own_cap = own_cap
            self.claim.clean = clean or (self.claim.clean and bool(self.run.approved))
            return ""
        if not self.start.stage:
            return ""
        from . import by_hand

        return by_hand.uncounted(self, status, clean=clean, own_cap=own_cap)

    def _note_refusal(self, what: str, refused: StaleToken | RunEnded) -> None:
        self.ledger.journal.note_refusal(self.job.name, self.run.id, self.run.attempt, self.lease.token, what, refused)
