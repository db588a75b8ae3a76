"""One try of a run, as a pipeline:

    look → hold (lease, keeper, gates) → open and seal the ledger → attempt → tell

Each step is a method, in this order; the attempt is `attempt`.
"""

from __future__ import annotations

import os

from .... import exits
from ....config import place
from ....core import statuses
from ....core.retry import STARTS
from ....errors import BadConfig, Error, GateUnreachable, OtherStore, RunEnded, StaleToken, StoreUnreachable
from ....ledger import kinds
from ....store import url
from ....system import clock, redaction
from ...shared import recorded_start
from ...shared import verdict as verdicts
from ...shared.job import definition
from ..backoff import patiently
from ..command import CommandWork
from ..supervision import Supervision
from . import begun, went_in
from .preflight import Preflight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.job import Job
    from ....ledger.records import RunRow
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict
    from ..batches.batch import Checkpoints
    from ..publishing.delivery import Delivery
    from .attempt import SealedAttempt
    from .claim import Claimed


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
        self.checkpoints, self.claim = checkpoints, claim
        self.delivery: Delivery | None = None
        self.attempt: SealedAttempt | None = None
        self.number = 1  # of this try, counted across supervisors
        self.unsealed = ""  # the key whose lease could not be had, because a gate could not be sealed
        self.variables = dict(job.env)  # for the command, with those of its env_file
        self.unusable: BadConfig | None = None  # why that file cannot be used
        self.stage = ""  # of a job of a file, started by hand

    def go(self) -> Verdict:
        deaf = self.checkpoints is not None  # a batch's driver, which unblocks signals when it is ready
        metered = self.job.meter == "output"
        self.command = CommandWork(self._words(), captured=(1, 2), deaf=deaf, metered=metered)
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

    def _open(self, key: str, *, lazy: bool = False) -> RunRow:
        self._read_environment()
        if self.after:  # what was ended meanwhile is not opened again
            return self.ledger.run(self.after.id) or self.after
        return self.ledger.open_run(
            self.job.name,
            key,
            slot=self.job.due,
            command=self.hidden.text(self.job.target.shown),
            definition=definition(self.job),
            host=self.host,
            again=self.job.again,
            lazy=lazy,
        )

    def _read_environment(self) -> None:
        """What the command gets, and what of it is hidden in all that is recorded."""
        if self.job.env_file:
            from ...shared import env_file

            try:
                self.variables = env_file.variables(self.job)
            except BadConfig as error:  # the attempt will end with it
                self.unusable = error
        self.hidden = redaction.secrets({**os.environ, **self.variables})

    # ── seal ──

    def _attempt(self, lease: Lease, key: str) -> Verdict:
        sealed = self._seal(lease, key)
        if isinstance(sealed, verdicts.Verdict):
            return sealed
        from .attempt import SealedAttempt  # here, since the warden, which is forked before, needs nothing of it

        lease.ended.clear()  # from here on the work may act: only its end takes it off the list
        self.attempt = SealedAttempt(self, lease, sealed, self.number)
        return self._tell(*self.attempt.make())

    def _seal(self, lease: Lease, key: str) -> Writer | Verdict:
        """The run's one writer; or the verdict, when there is nothing to attempt."""
        opened = self._open(key, lazy=True)
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
                command=self.hidden.text(self.job.target.shown),
                definition=definition(self.job),
                facts=went_in.facts(self.job, self.store.folder) | recorded_start.facts(self.job, self.hidden),
            )
        except RunEnded as ended:
            # Its last holder may have acted, or a person decided it while we waited for the lease.
            return self._tell(ended.run, statuses.exit_code(ended.run.status))
        if self.claim and self.claim.gives_up and not settled:
            lost = writer.finish(statuses.NEEDS_ATTENTION, reason=f"{STARTS} starts of this slot came to nothing")
            return self._tell(lost, statuses.exit_code(lost.status))
        if settled:
            skipped = writer.finish(statuses.SUCCEEDED, exit_code=0, reason="its key is done already")
            self.end_begun(lease, skipped)
            return self._tell(skipped, 0)
        if elsewhere:
            facts = {"attempt": elsewhere.attempt, "host": elsewhere.host, "token": elsewhere.token}
            self.ledger.note(self.job.name, kinds.BEGUN_ELSEWHERE, run=opened.id, **facts)
            writer.event(kinds.BEGUN_ELSEWHERE, **facts)
            if self.job.when_lost == "doubt":
                doubtful = writer.finish(statuses.IN_DOUBT, reason=begun.sentence(elsewhere))
                return self._tell(doubtful, statuses.exit_code(doubtful.status))
        return writer

    def end_begun(self, lease: Lease, run: RunRow) -> None:
        """Take an ended run off the list of begun keys; one that needs a person stays on it, for all machines."""
        if self._lists_begun and not statuses.needs_person(run.status):
            lease.ended = begun.ended(lease, self.ledger, run.key)

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
