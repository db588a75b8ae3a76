"""The first step of a run: is there anything to do? It takes no lease, and records only decisions that a person made on
another machine."""

from __future__ import annotations

import os

from ....core import advice, duration, retry, statuses
from ....core.job import BY_HAND, GATEWAY, Job
from ....core.value import replace
from ....errors import Busy, InDoubt
from ....ledger import open_for
from ....store import url
from ....system import clock, identity
from ...shared import verdict
from ..socket.reported import Reported
from .spending import Spending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ...shared.verdict import Verdict


class Preflight:
    """A job with its store, its ledger and what it has spent."""

    def __init__(self, job: Job, store: str | None, previous_try: RunRow | None = None) -> None:
        """`previous_try`: the run as the try before this one left it, if this process made that try."""
        self.job, self.where, self.previous_try = job, url.resolve(store), previous_try
        self.host, self.reported = identity.host(), Reported()
        self.known: RunRow | None = None  # the key's run, as `look` has found it
        # A large database driver is loaded after the warden is forked, which does not need it.
        scheme = url.scheme_of(self.where)
        self.large = scheme is not None and scheme.large
        if not self.large:
            self._open_store()

    def _open_store(self) -> None:
        self.store = url.connect(self.where)
        self.ledger: Ledger = open_for(self.where)
        self.spending = Spending(self.job, self.ledger, self.reported, self.store)

    def look_only(self) -> str | Verdict:
        """As `look`, for a caller that takes no lease afterwards: also raises if another process works on the key, or
        left it in doubt."""
        key = self.look()
        known = self.ledger.find(self.job.name, key) if isinstance(key, str) else None
        if known and known.status == statuses.RUNNING:
            from ..afterwards import lapse

            if lapse.status_of(known, self.ledger, self.store) != lapse.LAPSED:
                raise Busy(f"{self.job.name} ({key}) is being worked on by {known.holder}")
            if self.job.when_lost == "doubt" and not self._decision(known):
                raise InDoubt(
                    f"{self.job.name} ({key}) is in doubt: its holder {known.holder} is gone, and it may have acted. "
                    f"Look: {advice.command('show', known.id)}; then decide: {advice.command('resolve', known.id)}"
                )
        return key

    def look(self) -> str | Verdict:
        """The key to work on; or the verdict, when there is nothing to do."""
        if self.large:
            self._open_store()
        key = self.previous_try.key if self.previous_try else self.job.key or self._key_by_hand()
        done = None if self.job.again else self.store.look(self.job.name, key)
        known = self.ledger.find(self.job.name, key)
        if known and statuses.needs_person(known.status) and (decided := self._decision(known)):
            status, by = decided
            known = self.ledger.decisions.resolve(known.id, status, by)  # decided on another machine: recorded here now
        if known and statuses.needs_person(known.status):
            from ..leases import unsealed

            then, verb = (
                ("when it is repaired", "retry") if unsealed.waits(self.ledger, known) else ("then decide", "resolve")
            )
            raise InDoubt(
                f"{self.job.name} ({key}) is {known.status}: {known.reason or 'nobody knows whether it acted'}. Look: "
                f"{advice.command('show', known.id)}; {then}: {advice.command(verb, known.id)}"
            )
        settled = done is not None or (known is not None and known.status == statuses.SUCCEEDED and not self.job.again)
        if settled and not (known and known.status in statuses.OPEN):
            return verdict.Verdict(
                job=self.job.name, key=key, slot=self.job.due, status=verdict.SKIPPED, exit_code=0, host=self.host,
                run=known.id if known else "", reason="its key is done", at=clock.wall(), tried=False,
            )  # fmt: skip
        if known and known.held is not None and not settled:
            from . import approval

            approver = approval.approver_of(self.store, known)
            if not approver:
                return self._conclude_held(known)
            known = self.ledger.decisions.approve(known.id, known.head, approver)
        if known and known.status == statuses.WAITING and not settled:
            self.check_due(known)
        self.known = known
        if known and self.only_publishes(known):
            return key  # its approved result is paid for already, and only lands
        if known and (given_up := self._given_up(known)):
            return given_up
        self.spending.count_earlier(known)
        self.spending.check_not_spent()
        if self.spending.metered_by(self.job) == GATEWAY:
            from ..metering import environment

            variables = {**os.environ, **dict(self.job.env)}
            environment.check((*self.job.budget, *self.spending.caps_of_all_jobs), variables, self.job.command)
        return key

    def _decision(self, known: RunRow) -> tuple[str, str] | None:
        """What a person has decided about the run on any machine: the status, and the person's name."""
        from . import begun

        decided = begun.decision(self.store, self.ledger, known)
        return begun.outcome(decided) if decided else None

    def only_publishes(self, run: RunRow) -> bool:
        """Was a plan of the run approved? Then its next attempt only publishes. (Approved starts run the command.)"""
        if not run.approved:
            return False
        from ..publishing import held

        return bool(held.planned(self.ledger, run.id))

    def _conclude_held(self, known: RunRow) -> Verdict:
        """Raises `InDoubt`: only an approval lets the run go on."""
        from ....ledger.sealing import held_message

        raise InDoubt(held_message(known))

    def _given_up(self, known: RunRow) -> Verdict | None:
        """The verdict of a slot's run that has had all its attempts, else None: a cron line that fires every quarter of
        an hour would try for ever. Work goes on with the next slot."""
        if self.job.again or self.previous_try or known.status not in statuses.AGAIN or not self.is_spent(known):
            return None
        attempts = self.ledger.attempts_since_retry(known)
        reason = f"{attempts} attempts were made at this slot; allow another: {advice.command('retry', known.id)}"
        code = statuses.exit_code(known.status, known.exit_code)
        return replace(verdict.of(known, exit_code=code, host=self.host, at=clock.wall()), reason=reason, tried=False)

    def is_spent(self, run: RunRow) -> bool:
        """Has a slot had all its attempts? Only a person's `retry` allows more."""
        most = max(retry.STARTS, self.job.retries + 1)
        return bool(self.job.due) and self.ledger.attempts_since_retry(run) >= most

    def check_due(self, run: RunRow) -> None:
        """Raise `Busy` while the next try of a waiting run is not due. Between our own tries we have already
        waited, by a clock that cannot be set."""
        if self.previous_try or retry.is_due(run.due, now := self.ledger.clock()):
            return
        left = duration.show(int((run.due or now) - now) + 1)
        raise Busy(
            f"{run.job} ({run.key}) waits for its next try, due in {left}. Make it due now: "
            f"{advice.command('retry', run.id)}; end it: {advice.command('cancel', run.id)}"
        )

    def _key_by_hand(self) -> str:
        """The key of a run by hand: that of the newest run, if that is by hand and unfinished, unless the job asks
        for a new one. An explicit key is never reused: it would count as done, whatever command is run now."""
        if not self.job.new:
            newest = self.ledger.newest(self.job.name)
            if (
                newest
                and newest.key.startswith(BY_HAND)
                and newest.status not in (statuses.SUCCEEDED, statuses.CANCELLED)
            ):
                return newest.key
        return f"{BY_HAND}{identity.new_id()[:12]}"
