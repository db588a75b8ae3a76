"""One try of a run, as a pipeline:

    look → hold (lease, keeper, gates) → begin (open and seal the ledger) → attempt → conclude

Each step is a method or a file of that name, in this order.
"""

from __future__ import annotations

from .... import exits
from ....config import place
from ....core import statuses
from ....errors import Error, GateUnreachable, OtherStore, StaleToken, StoreUnreachable
from ....store import url
from ....system import clock, preload
from ...shared import verdict as verdicts
from ..backoff import until_recorded
from ..supervision import Supervision
from .preflight import Preflight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.job import Job
    from ....core.model import Begun
    from ....errors import BadConfig
    from ....ledger.records import RunRow
    from ....system.redaction import Redactor
    from ...shared.leases.lease import Lease
    from ...shared.verdict import Verdict
    from ..batches.batch import Checkpoints
    from ..publishing.delivery import Delivery
    from .attempt import SealedAttempt
    from .claim import Claimed


class Pipeline(Preflight):
    hidden: Redactor  # set when the run is opened: hides secrets of the command's environment

    def __init__(
        self,
        job: Job,
        store: str | None,
        checkpoints: Checkpoints | None = None,
        previous_try: RunRow | None = None,
        claim: Claimed | None = None,
    ) -> None:
        super().__init__(job, store, previous_try)
        self.checkpoints, self.claim = checkpoints, claim
        self.delivery: Delivery | None = None
        self.attempt: SealedAttempt | None = None
        self.number = 1  # which try this is, counted across supervisors
        self.elsewhere: list[Begun] = []  # attempts of this key that other machines began and did not end
        self.publishes = False  # a plan of the run was approved: the command is not run again
        self.edited = False  # the job was edited while its run waited, unstarted, for an approval
        self.unsealed = ""  # the key whose lease could not be taken, because a gate could not be sealed
        self.variables = dict(job.env)  # for the command, with those of its env_file
        self.unusable: BadConfig | None = None  # why the env_file cannot be used
        self.stage = ""  # the job's, if it is in nightlatch.toml and was started by hand

    def go(self) -> Verdict:
        blocked = self.checkpoints is not None  # a batch's driver, which unblocks signals when it is ready
        folder = url.folder_of(self.where) if self.large else self.store.folder
        # Many runs of a schedule may begin at once: then what each of them takes counts, not when its command starts.
        frugal = self.claim is not None
        self.supervision = Supervision(self._argv(), folder, captured=(1, 2), blocked=blocked, frugal=frugal)
        try:
            with self.supervision:
                return self._run_claimed() if self.claim else self._run_unclaimed()
        finally:
            self.supervision.close()  # until the next try there is no command to forward signals to

    def _argv(self) -> list[str]:
        """What the warden starts."""
        if not self.job.require and not self.job.ensure:
            return self.job.command
        from ...shared.contract import wrapped

        return wrapped(self.job)

    def _run_unclaimed(self) -> Verdict:
        key = self.look()
        if isinstance(key, verdicts.Verdict):
            return key
        if not self.job.file:
            return self._attempt(self._take_lease(key), key)
        from . import by_hand

        self.claim = by_hand.approved_claim(self, key)
        if self.claim:
            return self._run_claimed()
        self.stage = by_hand.stage(self)
        verdict = self._attempt(self._take_lease(key), key)
        by_hand.count(self)
        return verdict

    def _conclude_held(self, known: RunRow) -> Verdict:
        """For a claimed slot, a run that waits for an approval ends this start normally; by hand, it is an error."""
        return self.conclude(known, exits.DONE) if self.claim else super()._conclude_held(known)

    def _run_claimed(self) -> Verdict:
        """As `_run_unclaimed`, for a claimed slot: the claim is begun under the lease, and ended before its release."""
        assert self.claim
        claim = self.claim
        try:
            key = self.look()
            verdict = key if isinstance(key, verdicts.Verdict) else self._ended_before()
            if verdict:
                claim.settle(self.store, self.ledger, verdict)
                return verdict
            assert isinstance(key, str)
            if claim.waits_unstarted(self.store):
                held = self.ledger.decisions.hold(self._open(key).id, self.store.clock() + self.job.expires)
                if held.held is not None:
                    claim.clean = True  # so far; once the run is approved, its end decides
                    verdict = self.conclude(held, exits.DONE)
                    claim.settle(self.store, self.ledger, verdict)
                    return verdict
            lease = self._take_lease(key)
            claim.begin(self.store, self.ledger, lease)
            claim.follow_cancel(self.store, self.ledger, lease)
            verdict = self._attempt(lease, key)
        except (GateUnreachable, OtherStore, StaleToken, StoreUnreachable):
            raise  # it is tried again here, or by the scheduler that finds the claim
        except Error as why:
            claim.note_not_begun(self.store, self.ledger, why)
            raise
        final = verdict
        until_recorded(lease, lambda: claim.settle(self.store, self.ledger, final))
        return verdict

    def _ended_before(self) -> Verdict | None:
        """The verdict of a run that has ended and that a schedule does not try again."""
        known = self.known
        publishes = known is not None and self.only_publishes(known)
        if not self.claim or not self.claim.closed_by(known, publishes) or not known or self.previous_try:
            return None
        return self.conclude(known, statuses.exit_code(known.status, known.exit_code))

    # ── hold ──

    def _take_lease(self, key: str) -> Lease:
        preload.load(preload.WORK)  # before the keeper's thread exists
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
            gates=self.delivery.publication.gates if self.delivery else (),
            # A batch keeps its own record of which machine began it.
            begin=self._entry(key) if self.lists_begun else None,
            # Not flushed here: the store's next write, which begins the claim, does that before the ledger is sealed.
            lazy=self.may_write_lazily,
        )

    @property
    def may_write_lazily(self) -> bool:
        """May a write to the store stay unflushed, because the claim's next move flushes it too?"""
        return self.claim is not None and getattr(self.store, "may_be_lazy", False)

    @property
    def lists_begun(self) -> bool:
        return self.store.lists_begun and self.checkpoints is None

    def _entry(self, key: str) -> Begun:
        from .begun import entry

        return entry(self.ledger, self.job.name, key)

    def give_up(self, why: Error) -> Verdict:
        """Record that nothing was begun, since a person has to repair the gate; returns the verdict."""
        from ..leases.unsealed import record

        waits = record(self.ledger, self._open(self.unsealed), why, self.host)
        return self.conclude(waits, statuses.exit_code(waits.status))

    # ── begin ──

    def _attempt(self, lease: Lease, key: str) -> Verdict:
        # Imported after the warden is forked, which does not need them.
        from .attempt import SealedAttempt
        from .begin import seal

        writer = seal(self, lease, key)
        if isinstance(writer, verdicts.Verdict):
            return writer
        lease.ended.clear()  # the work may act now: until it ends, a release leaves the key on the list of begun keys
        self.attempt = SealedAttempt(self, lease, writer, self.number)
        return self.conclude(*self.attempt.make())

    def _open(self, key: str) -> RunRow:
        from .begin import open_run

        return open_run(self, key)

    # ── conclude ──

    def conclude(self, run: RunRow, exit_code: int) -> Verdict:
        """Make the verdict, and add it to runs.log."""
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
