"""The steps of one run, from the preflight to the last line of output.

    look → hold (lease, keeper, gates) → open and seal the ledger → prepare → start → attend → publish → settle → tell

Each step is a method, in this order. What ends a run from outside is `watch`; what keeps the lease is
the keeper; what ends the tree is the warden.
"""

from __future__ import annotations

import os

from .... import exits
from ....config import place
from ....core import advice, retry, statuses
from ....core.retry import GAVE_UP
from ....errors import (
    BadConfig,
    Conflict,
    Error,
    GateUnreachable,
    LeaseLost,
    OtherStore,
    RunEnded,
    StaleToken,
    StoreUnreachable,
)
from ....ledger import kinds
from ....store import url
from ....system import clock, redaction
from ....system.durable import private_folder
from ....system.reports import Ended
from ...shared import recorded_start, usage
from ...shared import verdict as verdicts
from ...shared.job import definition
from ..afterwards import retention, telling
from ..backoff import patiently, pause_seconds
from ..command import CommandWork
from ..supervision import Supervision
from . import begun, unwritten, went_in
from .attend import Attendance
from .ending import Ending
from .preflight import Preflight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.job import Job
    from ....ledger.records import RunRow
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict
    from ..batches.batch import Checkpoints
    from ..publishing.delivery import Delivery
    from .claim import Claimed
    from .waiting import Signals


def run(
    job: Job,
    *,
    store: str | None = None,
    checkpoints: Checkpoints | None = None,
    after: RunRow | None = None,
    claim: Claimed | None = None,
) -> tuple[Verdict, Signals | None]:
    """One try, for `tries.run`. `after`: the run that the last one left waiting. If another try follows, the signals
    that come from then on are noted."""
    number = 0
    while True:
        number += 1
        pipeline = Pipeline(job, store, checkpoints, after, claim)
        try:
            verdict = pipeline.go()
        except (GateUnreachable, OtherStore) as why:
            if not pipeline.unsealed:
                raise
            from ..leases import unsealed

            if unsealed.back_off(number, why):
                continue
            verdict = pipeline.give_up(why)
            if claim:
                claim.settle(pipeline.store, pipeline.ledger, verdict)
        if pipeline.attendance:
            pipeline.attendance.show_rest()
        if job.ping and pipeline.begun:
            from . import ping

            ping.end(job.ping, verdict)
        retention.daily(pipeline.store, pipeline.ledger, pipeline.host)
        telling.leave_behind(job.file, pipeline.where)
        if pipeline.signals:  # otherwise the process ends, which is faster than closing them
            pipeline.store.close()
            pipeline.ledger.close()
        return verdict, pipeline.signals


class Pipeline(Preflight):
    def __init__(
        self,
        job: Job,
        store: str | None,
        checkpoints: Checkpoints | None = None,
        after: RunRow | None = None,
        claim: Claimed | None = None,
    ) -> None:
        super().__init__(job, store, after)
        self.checkpoints, self.claim, self.ending = checkpoints, claim, Ending()
        self.delivery: Delivery | None = None
        self.unsealed = ""  # the key whose lease could not be had, because a gate could not be sealed
        self.attendance: Attendance | None = None
        self.signals: Signals | None = None  # while the run waits for its next try
        self.number = 1  # of this try, counted across supervisors
        self.variables = dict(job.env)  # for the command, with those of its env_file
        self.unusable: BadConfig | None = None  # why that file cannot be used
        self.unended = ""  # the agent at a vendor that could not be ended
        self.recovered = ""  # how an earlier attempt's work came to be published
        self.begun = False  # an attempt was made
        self.planned = False  # what it made waits for an approval
        self.stage = ""  # of a job of a file, started by hand

    def go(self) -> Verdict:
        deaf = self.checkpoints is not None  # a batch's driver, which unblocks signals when it is ready
        meter = usage.from_output if self.job.meter == "output" else None
        self.command = CommandWork(self._words(), captured=(1, 2), deaf=deaf, meter=meter)
        self.supervision = Supervision(self.command, url.folder_of(self.where) if self.large else self.store.folder)
        try:
            with self.supervision:
                return self._claimed() if self.claim else self._unclaimed()
        finally:
            self.supervision.close()  # until the next attempt there is no command to pass signals on to

    def _words(self) -> list[str]:
        """What the warden starts."""
        if not self.job.require and not self.job.ensure:
            return self.job.command
        from ...shared.contract import wrapped

        return wrapped(self.job)

    def _unclaimed(self) -> Verdict:
        key = self.look()
        if isinstance(key, verdicts.Verdict):
            return key
        if not self.job.file:
            return self._attempt(self._take(key), key)
        from . import by_hand

        self.claim = by_hand.approved_claim(self, key)
        if self.claim:
            return self._claimed()
        self.stage = by_hand.stage(self)
        verdict = self._attempt(self._take(key), key)
        by_hand.count(self)
        return verdict

    def _held(self, known: RunRow) -> Verdict:
        """A slot's claim records that the run waits for an approval; to start such a run by hand is an error."""
        return self._tell(known, exits.DONE) if self.claim else super()._held(known)

    def _claimed(self) -> Verdict:
        """The same for a slot that was claimed: the claim is begun under the lease, and ended before its release."""
        assert self.claim
        claim = self.claim
        try:
            key = self.look()
            verdict = key if isinstance(key, verdicts.Verdict) else self._ended_before(key)
            if verdict:
                claim.settle(self.store, self.ledger, verdict)
                return verdict
            assert isinstance(key, str)
            if claim.waits_unstarted(self.store):
                held = self.ledger.hold(self._open(key).id, self.store.clock() + self.job.expires)
                if held.held is not None:
                    claim.clean = True  # once it is approved, its end decides
                    verdict = self._tell(held, exits.DONE)
                    claim.settle(self.store, self.ledger, verdict)
                    return verdict
            lease = self._take(key)
            claim.begin(self.store, self.ledger, lease)
            claim.follow_approval(self.store, self.ledger, lease)
            verdict = self._attempt(lease, key)
        except (GateUnreachable, OtherStore, StaleToken, StoreUnreachable):
            raise  # tried again; or judged by the one that finds the claim
        except Error as why:
            claim.not_begun(self.store, self.ledger, why)
            raise
        verdict_of = verdict
        patiently(lease, lambda: claim.settle(self.store, self.ledger, verdict_of))
        return verdict

    def _ended_before(self, key: str) -> Verdict | None:
        """The verdict of a run that has ended and that a schedule does not try again."""
        known = self.ledger.find(self.job.name, key)
        if not self.claim or not self.claim.closed_by(known) or not known or self.after:
            return None
        return self._tell(known, statuses.exit_code(known.status, known.exit_code))

    # ── hold ──

    def _take(self, key: str) -> Lease:
        if self.job.workspace:
            from ..publishing.delivery import Delivery

            self.delivery = Delivery(self.job)
        try:
            return self._hold(key)
        except (GateUnreachable, OtherStore):
            self.unsealed = key
            raise

    def _hold(self, key: str) -> Lease:
        return self.supervision.hold(
            self.store,
            self.job.name,
            ttl=self.job.ttl or self.store.default_ttl,
            wait=self.job.wait,
            gates=self.delivery.gates if self.delivery else (),
            # A batch keeps its own record of which machine began it.
            begin=begun.entry(self.ledger, self.job.name, key) if self._lists_begun else None,
        )

    @property
    def _lists_begun(self) -> bool:
        return self.store.lists_begun and self.checkpoints is None

    def give_up(self, why: Error) -> Verdict:
        """No lease, nothing begun: a person has to repair the gate."""
        from ..leases.unsealed import record

        waits = record(self.ledger, self._open(self.unsealed), why, self.host)
        return self._tell(waits, statuses.exit_code(waits.status))

    def _open(self, key: str) -> RunRow:
        if self.after:  # what was ended meanwhile is not opened again
            return self.ledger.run(self.after.id) or self.after
        return self.ledger.open_run(
            self.job.name,
            key,
            slot=self.job.due,
            command=self._command(),
            definition=definition(self.job),
            host=self.host,
            again=self.job.again,
        )

    def _command(self) -> str:
        """The command as it is recorded, redacted."""
        if self.job.env_file:
            from ...shared import env_file

            try:
                self.variables = env_file.variables(self.job)
            except BadConfig as error:  # the attempt will end with it
                self.unusable = error
        return self._hidden().text(self.job.target.shown)

    def _hidden(self) -> redaction.Redactor:
        return redaction.secrets({**os.environ, **self.variables})

    def _attempt(self, lease: Lease, key: str) -> Verdict:
        opened = self._open(key)
        settled = not self.job.again and self.store.look(self.job.name, key) is not None
        if not settled and (over := self._held_back(opened)):
            return over
        self.number = self.ledger.tries(opened) + 1
        decided = opened.status == statuses.RUNNING and begun.decision(self.store, self.ledger, opened)
        elsewhere = begun.elsewhere(lease, self.ledger, opened) if lease.begun and not settled else None
        try:
            writer = self.ledger.seal(
                opened.id,
                token=lease.token,
                grant=lease.grant,
                holder=lease.holder,
                lost="again" if settled or decided or opened.approved else self.job.when_lost,
                command=self._command(),
                definition=definition(self.job),
                facts=went_in.facts(self.job, self.store.folder) | recorded_start.facts(self.job, self._hidden()),
            )
        except RunEnded as ended:
            # Its last holder may have acted, or a person decided it while we waited for the lease.
            return self._tell(ended.run, statuses.exit_code(ended.run.status))
        if self.claim and self.claim.gives_up and not settled:
            lost = writer.finish(statuses.NEEDS_ATTENTION, reason=GAVE_UP)
            return self._tell(lost, statuses.exit_code(lost.status))
        if settled:
            skipped = writer.finish(statuses.SUCCEEDED, exit_code=0, reason="its key is done already")
            self._end_begun(lease, skipped)
            return self._tell(skipped, 0)
        if elsewhere:
            facts = {"attempt": elsewhere.attempt, "host": elsewhere.host, "token": elsewhere.token}
            self.ledger.note(self.job.name, kinds.BEGUN_ELSEWHERE, run=opened.id, **facts)
            writer.event(kinds.BEGUN_ELSEWHERE, **facts)
            if self.job.when_lost == "doubt":
                doubtful = writer.finish(statuses.IN_DOUBT, reason=begun.sentence(elsewhere))
                return self._tell(doubtful, statuses.exit_code(doubtful.status))
        lease.ended.clear()  # from here on the work may act: only its end takes it off the list
        self.writer, self.lease, self.opened = writer, lease, writer.run
        self.begun = True
        writer.tag = went_in.tag(self.job)
        unwritten.recover(self._folder(), self.ledger, writer)
        self.spending.begin(
            writer.run
        )  # counted again: another supervisor may have made an attempt while we waited for the lease
        started = clock.now()
        if self.job.ping and not writer.run.approved:
            from . import ping

            ping.begin(self.job.ping)
        if writer.run.approved and self._has_plan():
            self._guarded(self._land_plan)
        elif self._prepare():
            self._guarded(lambda: self._work(started))
            self._guarded(self._end_agents)
            self._publish()
        return self._settle(key, clock.now() - started)

    def _has_plan(self) -> bool:
        from ..publishing import held

        return bool(held.planned(self.ledger, self.opened.id))

    def _land_plan(self) -> None:
        """The command is not run again: what it made was approved, and lands."""
        if self.delivery is None:
            raise Conflict("the job was edited after its plan was made, and publishes nothing now: nothing lands")
        self.recovered = self.delivery.land_plan(self.lease, self.ledger, self.writer, definition(self.job))
        self.ending.take(Ended())

    def _held_back(self, run: RunRow) -> Verdict | None:
        """The verdict if no further try is made; raises `Busy` if none may be made now."""
        if not self.after and run.status != statuses.WAITING:
            return None
        from . import waiting

        if self.after and waiting.moved_on(self.after, run):
            return self._tell(run, waiting.outcome(run))
        if run.status == statuses.WAITING and run.cancel:
            ended = waiting.cancel(run, self.ledger)
            return (
                self._tell(ended, statuses.exit_code(ended.status)) if ended else self._held_back(self._open(run.key))
            )
        if run.status == statuses.WAITING:
            self.check_due(run)
        return None

    # ── prepare ──

    def _prepare(self) -> bool:
        """Record the inputs, make the workspace. False: there is nothing to start, and `ending` says why."""

        def steps() -> None:
            if self.unusable:
                raise self.unusable
            if self.job.input:
                from ....system import fingerprint

                for path in self.job.input:
                    self.writer.event(kinds.INPUT, path=os.path.abspath(path), sha256=fingerprint.of(path))
            if self.delivery:
                self.recovered = self.delivery.begin(self.lease, self.ledger, self.writer)
                if self.recovered:
                    self.ending.take(Ended())

        self._guarded(steps)
        return not self.ending.over

    # ── start and attend ──

    def _folder(self) -> str:
        return os.path.join(self.store.folder, "runs", self.opened.id)

    def _work(self, started: float) -> None:
        folder = private_folder(self._folder())
        if self.checkpoints:
            self.checkpoints.prepare(self.store, self.ledger, self.lease, self.writer, folder)
        self.attendance = Attendance(
            self.job,
            self.supervision,
            self.command,
            self.lease,
            self.ledger,
            self.writer,
            self.reported,
            self.spending,
            self.ending,
            folder=folder,
            variables=self.variables,
            delivery=self.delivery,
            checkpoints=self.checkpoints,
            where=self.where,
        )
        self.attendance.holds(self.claim is not None and self.claim.holding)
        self.attendance.run(started)

    def _end_agents(self) -> None:
        """While the lease is held: only its holder may end what works at a vendor."""
        if not self.attendance or not self.ending.over or not self.ending.exit_code:
            return
        tried_again = self.number <= self.job.retries and retry.worth_another(statuses.FAILED, self.ending.exit_code)
        self.unended = self.attendance.end_agents(tried_again=tried_again)

    # ── publish ──

    def _publish(self) -> None:
        """Publish the result, if there is one; nothing of the command is left that could still change it."""
        if not self.delivery or self._judged()[0] != statuses.SUCCEEDED:
            return
        if self.claim and self.claim.holding and not self.recovered:
            self._guarded(self._hold_writes)
        else:
            self._guarded(self.delivery.publish)

    def _hold_writes(self) -> None:
        assert self.delivery
        self.delivery.hold(definition(self.job))
        self.planned = True

    def _guarded(self, steps: Callable[[], None]) -> None:
        """An error ends the run, with the reason. A refusal does not: another holder has the run by now."""
        try:
            steps()
        except StaleToken as refused:
            self._note_refusal("result", refused)
            raise
        except LeaseLost as lost:
            self.ending.decide(statuses.LOST, str(lost), lost.exit_code)
        except Error as error:
            status = statuses.NEEDS_ATTENTION if isinstance(error, Conflict) else self._broken_off()
            self.ending.decide(status, str(error), error.exit_code)
        except Exception as error:
            # A full disk, a removed folder, a bug of ours: a run that nobody ends would need a person.
            if os.environ.get("NIGHTLATCH_DEBUG"):
                raise
            reason = f"Nightlatch could not go on: {type(error).__name__}: {error}"
            self.ending.decide(self._broken_off(), reason, exits.OURS)

    def _broken_off(self) -> str:
        """Our own error ends the attempt: a command that was running may have acted."""
        at_work = self.attendance is not None and self.attendance.began and not self.ending.over
        self.command.end()
        return statuses.LOST if at_work else statuses.FAILED

    # ── settle ──

    def _settle(self, key: str, elapsed: float) -> Verdict:
        """Mark the key done, and record how it ended: never over the verdict of a newer holder."""
        status, reason = self._judged()
        own, left = 0 if status == statuses.SUCCEEDED else self.ending.exit_code, self.ending.left
        if status == statuses.SUCCEEDED and not self.planned and not (self.delivery and self.delivery.settled):
            patiently(self.lease, lambda: self._mark_done(key))
        if left and not reason:
            reason = f"left {left} process{'es' if left > 1 else ''} behind; ended"
        if self.delivery and status != statuses.SUCCEEDED:
            reason = self.delivery.kept(reason)
        shown = self._exit_code(status, own)
        # A lost attempt may have acted.
        doubt = status == statuses.LOST and self.job.when_lost == "doubt"
        pause = None if doubt else self._pause(status, shown)
        tries = None if pause is None else self.number
        again_at = None if pause is None else self.writer.now() + pause
        held = self.writer.now() + self.job.expires if self.planned and status == statuses.SUCCEEDED else None
        uncounted = self._counts(status, reason)
        try:
            ended = patiently(
                self.lease,
                lambda: self.writer.finish(
                    status, exit_code=own, reason=reason, elapsed=elapsed, again_at=again_at, doubt=doubt, tries=tries,
                    held=held, uncounted="" if again_at else uncounted,
                ),
            )  # fmt: skip
            if self.opened.approved and not ended.approved:
                from ..publishing.held import release

                release(self.ledger, ended.id)
            if ended.status == statuses.WAITING and held is None:
                from .waiting import Signals

                self.signals = Signals(self.supervision)
            if held is None:
                self._end_begun(self.lease, ended)
            if self.delivery:
                self.delivery.end(keep=status != statuses.SUCCEEDED or self.planned)
            return self._tell(ended, shown)
        except (StaleToken, RunEnded) as refused:
            self._note_refusal(f"verdict {status}", refused)
            raise LeaseLost(
                f"{self.job.name} was taken over while it ran; its end is not recorded over the new holder's. "
                f"Look: {advice.command('show', self.opened.id)}",
                reason="taken",
            ) from None

    def _counts(self, status: str, reason: str) -> str:
        """What this end counts for its job's stage. For a run by hand: as text that the ledger keeps until then."""
        own_cap = status == statuses.OVER_BUDGET and any(
            cap.period == "run" and f"budget {cap} " in f"{reason} " for cap in self.spending.caps
        )
        clean = status == statuses.SUCCEEDED and self.opened.attempt == 1 and not self.ending.left
        if self.claim:
            self.claim.own_cap = own_cap
            self.claim.clean = clean or (self.claim.clean and bool(self.opened.approved))
            return ""
        if not self.stage:
            return ""
        from . import by_hand

        return by_hand.uncounted(self, status, clean=clean, own_cap=own_cap)

    def _exit_code(self, status: str, own: int) -> int:
        if status in (statuses.SUCCEEDED, statuses.FAILED):
            return own
        if (
            status in (statuses.LOST, statuses.CANCELLED)
            and not self.lease.lost
            and self.ending.was_interrupted(self._end_signal)
        ):
            return own or 128 + self._end_signal  # it was interrupted, even if it exited with 0
        return own if status == statuses.LOST and self.ending.decided else statuses.exit_code(status)

    @property
    def _end_signal(self) -> int:
        """The signal that asked us to end, or that a person ended the command with at the terminal."""
        pressed = self.supervision.pressed
        return self.supervision.end_signal or (pressed if self.ending.exit_code == 128 + pressed else 0)

    def _pause(self, status: str, exit_code: int) -> float | None:
        """Seconds until the next try; None: no other try."""
        if self.number > self.job.retries or not retry.worth_another(status, exit_code):
            return None
        if self.is_spent(self.writer.run):
            return None
        return pause_seconds(self.number, base=self.job.backoff, at_least=self.reported.retry_after)

    def _end_begun(self, lease: Lease, run: RunRow) -> None:
        """Take an ended run off the list of begun keys; one that needs a person stays on it, for all machines."""
        if self._lists_begun and not statuses.needs_person(run.status):
            lease.ended = begun.ended(lease, self.ledger, run.key)

    def _note_refusal(self, what: str, refused: StaleToken | RunEnded) -> None:
        self.ledger.note_refusal(self.job.name, self.opened.id, self.opened.attempt, self.lease.token, what, refused)

    def _mark_done(self, key: str) -> None:
        self.store.settle(self.lease.name, self.lease.grant, self.job.name, key, value=self.opened.id)

    def _judged(self) -> tuple[str, str]:
        done = self.checkpoints is not None and self.checkpoints.summary.get("exit_code") == 0
        status, reason = self.ending.judged(
            self.lease.lost, self.job.timeout, self.reported, end_signal=self._end_signal, done=done
        )
        if (
            status == statuses.LOST
            and self.ending.was_interrupted(self._end_signal)
            and (canceller := self._cancelled_by())
        ):
            return statuses.CANCELLED, f"cancelled by {canceller}"
        if self.unended and status != statuses.LOST:
            return statuses.NEEDS_ATTENTION, self.unended
        if status != statuses.SUCCEEDED:
            return status, reason
        # Usage that is known only at the end cannot undo the work: a failed run would be done, and paid for, again.
        cap = self.spending.over()
        over = f"passed its budget {cap}" if cap else self.reported.unmetered
        return status, self.recovered or over

    def _cancelled_by(self) -> str | None:
        try:
            return self.writer.cancel_requested()
        except StoreUnreachable:
            return None

    # ── tell ──

    def _tell(self, run: RunRow, exit_code: int) -> Verdict:
        verdict = verdicts.of(
            run,
            exit_code=exit_code,
            host=self.host,
            at=clock.wall(),
            head=run.anchor,
            retry_after=self.reported.retry_after,
        )
        verdicts.append(self.store.folder, verdict, as_json=place.logs_json(self.job.file))
        return verdict
