"""What people decide and observers find about runs. No token is needed: what changes a run is a compare-and-set on it
as it was seen, recorded on the job's chain with the name of the person or machine."""

from __future__ import annotations

from ..core import advice, statuses
from ..errors import InDoubt, RunEnded, UsageError
from . import kinds
from .chain import clean, job_chain
from .changing import anchor, change
from .journal import Journal
from .records import RunRow
from .sealing import held_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Tables

_MOMENT = 2.0  # seconds that a supervisor waits for the database to answer
_REQUEST_CANCEL = """
UPDATE {prefix}run SET cancel = :cancel
WHERE id = :id AND status = 'running' AND attempt = :was_attempt AND cancel = '' {matched}
"""
_PUT_BUDGET = """
INSERT INTO {prefix}budget (run, caps) VALUES (:run, :caps) ON CONFLICT (run) DO UPDATE SET caps = excluded.caps
"""


def state_of(run: RunRow) -> str:
    """What a person knows of a run when deciding. Not its head: that moves with every report of progress."""
    return f"{run.status} {run.attempt} {run.anchor}"


class Decisions:
    """Made by `Ledger.decisions`.

    `state`, where a verb has it: what the person saw (`state_of`). If the run has changed since, nothing is done,
    and `RunEnded` carries the run as it is.
    """

    def __init__(self, tables: Tables, watching: Tables, look: Callable[[str], RunRow]) -> None:
        """`look` returns a run by its id as it is now, or raises."""
        self._tables, self._watching, self._look = tables, watching, look

    def request_cancel(self, run_id: str, by: str, *, state: str = "") -> RunRow:
        """Ask for a run's end. One that is not running is cancelled at once; a running one's holder finds the
        request."""

        def decide(run: RunRow) -> RunRow | None:
            if run.status == statuses.RUNNING:
                return run if run.cancel else self._leave_request(run, by)
            if run.status in statuses.OPEN:
                return self.end_waiting(run, f"cancelled by {by}", by, person=True)
            if statuses.needs_person(run.status):
                how = advice.command("resolve", run.id)
                raise RunEnded(f"{run.title} is {run.status}: say how it ended, with {how}", run)
            raise RunEnded(f"{run.title} has ended already: {run.status}", run)

        return self._decided(run_id, decide, state)

    def _leave_request(self, run: RunRow, by: str) -> RunRow | None:
        """Leave a request for the holder of a running run. None if it no longer runs, or already has one."""
        with self._tables.on_chain(run.job) as chain:
            if not chain(_REQUEST_CANCEL, id=run.id, was_attempt=run.attempt, cancel=clean(by)):
                return None
            return anchor(chain, run.id, kinds.CANCEL_REQUESTED, by=by)

    def end_waiting(self, run: RunRow, reason: str, by: str, *, person: bool) -> RunRow | None:
        """Cancel a run that is not running, if it is still as it was seen; otherwise return None.

        `person`: a person cancelled it, and knows that the work is not done; after a shutdown nobody knows that yet.
        """
        cancel = by if person else ""
        return change(self._tables, run, statuses.CANCELLED, kinds.CANCELLED, reason=reason, cancel=cancel, by=by)

    def resolve(
        self, run_id: str, outcome: str, by: str, *, state: str = "", before_commit: Callable[[], object] | None = None
    ) -> RunRow:
        """A person decides how a run that is in doubt or needs attention ended: succeeded, failed or cancelled.
        `before_commit` is called only if no other decision was first, and before any later one; if it raises, nothing
        is decided."""

        def decide(run: RunRow) -> RunRow | None:
            if outcome not in (statuses.SUCCEEDED, statuses.FAILED, statuses.CANCELLED):
                raise UsageError(f"a run cannot be resolved as {outcome!r}: use succeeded, failed or cancelled")
            if not statuses.needs_person(run.status):
                only = "only what is in doubt or needs attention can be resolved"
                raise RunEnded(f"{run.title} is {run.status}: {only}", run)
            reason = f"resolved as {outcome} by {by}"
            return change(self._tables, run, outcome, kinds.RESOLVED, reason=reason, before_commit=before_commit, by=by)

        return self._decided(run_id, decide, state)

    def retry(
        self, run_id: str, by: str, *, state: str = "", before_commit: Callable[[], object] | None = None
    ) -> RunRow:
        """A person wants another attempt: the run is pending again. `before_commit`: as for `resolve`."""

        def decide(run: RunRow) -> RunRow | None:
            if run.status == statuses.IN_DOUBT:
                first = advice.command("resolve", run.id)
                raise RunEnded(f"{run.title} is in doubt: it may have acted. Look, then {first} first", run)
            if run.status == statuses.SUCCEEDED:
                again = advice.command("retry", run.id, "--again")
                raise RunEnded(f"{run.title} succeeded: to do it once more, {again}", run)
            if run.status == statuses.RUNNING:
                raise RunEnded(f"{run.title} is running, by {run.holder}", run)
            if run.status == statuses.PENDING:
                return run
            if run.held is not None:
                raise InDoubt(held_message(run))
            return change(
                self._tables, run, statuses.PENDING, kinds.RETRIED, before_commit=before_commit, by=by,
                attempt=run.attempt,
            )  # fmt: skip

        return self._decided(run_id, decide, state)

    def hold(self, run_id: str, until: float) -> RunRow:
        """Let a run that has not begun wait for an approval; any other is returned as it is."""

        def decide(run: RunRow) -> RunRow | None:
            if run.status != statuses.PENDING:
                return run
            return change(self._tables, run, statuses.WAITING, kinds.HELD, held=until)

        return self._decided(run_id, decide)

    def approve(self, run_id: str, head: str, by: str) -> RunRow:
        """A person approves the plan that has this `head` ("": the present one): the run is pending, and carries the
        approval. A second approval changes nothing."""

        def decide(run: RunRow) -> RunRow | None:
            if run.approved and run.status not in (*statuses.NEEDS_PERSON, statuses.SUCCEEDED):
                return run
            if run.status != statuses.WAITING or run.held is None:
                raise RunEnded(f"{run.title} is {run.status}: it does not wait for an approval", run)
            if head and run.head != head:
                raise RunEnded(f"{run.title} holds another plan by now. Look: {advice.command('show', run.id)}", run)
            return change(self._tables, run, statuses.PENDING, kinds.APPROVED, approved=run.head, by=by)

        return self._decided(run_id, decide)

    def attention(self, run_id: str, reason: str, by: str) -> RunRow:
        """Record that a run needs a person: a gate cannot be sealed, or the store has lost what it knew."""

        def decide(run: RunRow) -> RunRow | None:
            if run.status not in (statuses.PENDING, statuses.WAITING):
                raise RunEnded(f"{run.title} is {run.status}", run)
            return change(self._tables, run, statuses.NEEDS_ATTENTION, kinds.NEEDS_ATTENTION, reason=reason, by=by)

        return self._decided(run_id, decide)

    def _decided(self, run_id: str, decide: Callable[[RunRow], RunRow | None], state: str = "") -> RunRow:
        while True:  # until the run has not changed between the look and the decision
            run = self._look(run_id)
            if state and state_of(run) != state:
                raise RunEnded(f"{run.title} is {run.status} by now, at attempt {run.attempt}", run)
            decided = decide(run)
            if decided:
                return decided

    def set_budget(self, run: RunRow, caps: str, by: str) -> None:
        """A person replaces the budget that a run was started with; its supervisor finds it within seconds."""
        with self._tables.on_chain(run.job) as chain:
            chain(_PUT_BUDGET, run=run.id, caps=caps)
            chain.append(kinds.BUDGET, run=run.id, caps=caps, by=by)

    def budget_of(self, run_id: str) -> str:
        """The budget that a person has set for a run; "" if nobody has. Reads one row, and waits for no writer."""
        rows = self._watching.read("SELECT caps FROM {prefix}budget WHERE run = :run", patience=_MOMENT, run=run_id)
        return str(rows[0][0]) if rows else ""

    def acknowledge(self, run: RunRow, by: str) -> None:
        """Record that a person has seen how the run's newest attempt ended: the run needs no attention until another
        attempt fails."""
        with self._tables.on_chain(run.job) as chain:
            chain.append(kinds.ACKNOWLEDGED, run=run.id, attempt=run.attempt, by=by)

    def acknowledged(self, job: str) -> frozenset[tuple[str, int]]:
        """(run, attempt) of each failure of a job that a person has seen."""
        entries = Journal(self._watching).newest(job_chain(job), kinds.ACKNOWLEDGED, most=1000)
        return frozenset((entry.facts["run"], int(entry.facts["attempt"])) for entry in entries)
