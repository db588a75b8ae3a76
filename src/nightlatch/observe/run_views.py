"""A run as people see it: its status, the one thing to know about it, and what to type."""

from __future__ import annotations

from ..core import advice, retry, statuses
from ..core.advice import Advice
from ..core.job import BY_HAND
from ..core.value import value
from ..ledger import kinds
from ..ledger.records import Attempt, Entry, RunRow
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.leases import unsealed
from ..system import clock
from .reader import NEEDS_DECISION, StoreReader

_LATE = 60.0  # a try is overdue so many seconds after it was due; until then another run of the job may hold the lease
STATUSES = (*statuses.ALL, lapse.LAPSED)  # every status that a run can be shown with

_MOST = 10**9  # more runs than any store has; every database accepts this number as a limit


@value(frozen=True, kw_only=True)
class RunView:
    """A run's row, its shown status and the next command. Texts are as reported: a front end must make them safe."""

    run: RunRow
    status: str  # as shown: may be `lapsed`, which is never in the row
    next: Advice

    @property
    def title(self) -> str:
        return title(self.run)

    @property
    def key(self) -> str:
        """The key to show: a run that was started without one has a random key."""
        return "by hand" if self.run.key.startswith(BY_HAND) else self.run.key

    @property
    def note(self) -> str:
        """The one thing to know: why the run ended, how far it is, or what it cost."""
        run = self.run
        if self.status == lapse.LAPSED:
            return f"its holder {run.holder} is gone"
        if run.status == statuses.RUNNING:
            cancel = f"cancel requested by {run.cancel}" if run.cancel else ""
            return ", ".join(filter(None, (self.progress, cancel)))
        if run.held is not None:
            return "waits for your approval"
        if run.status in statuses.OPEN:
            return f"before: {run.reason}" if run.reason else ""
        return run.reason or run.usage.show()

    @property
    def reason(self) -> str:
        """Why the run has its status."""
        return "its holder is gone, and nobody has taken over" if self.status == lapse.LAPSED else self.run.reason

    @property
    def progress(self) -> str:
        run = self.run
        if not (run.done or run.total or run.message):
            return ""
        counts = f"{run.done}/{run.total}" if run.total else str(run.done)
        return f"{counts} {run.message}".rstrip()

    @property
    def running_since(self) -> float | None:
        return self.run.started if self.status == statuses.RUNNING else None

    def facts(self) -> dict[str, object]:
        return facts(self.run, self.status)


def view(reader: StoreReader, run: RunRow) -> RunView:
    status = reader.status(run)
    return RunView(run=run, status=status, next=next_of(reader, run, status))


def recent(
    reader: StoreReader, *, job: str | None = None, status: str | None = None, since: float | None = None, limit: int
) -> list[RunView]:
    """Runs that changed at or after `since`, the newest change first, at most `limit` of them."""
    recorded = statuses.RUNNING if status == lapse.LAPSED else status
    found = reader.ledger.history.runs(job=job, status=recorded, since=since, limit=min(limit, _MOST))
    return [run_view for run_view in (view(reader, run) for run in found) if status in (None, run_view.status)]


def is_overdue(run: RunRow) -> bool:
    """Should the run's next try have started by now? Then its supervisor cannot start it: a person must."""
    return run.status == statuses.WAITING and run.held is None and retry.is_due(run.due, clock.wall() - _LATE)


def next_of(reader: StoreReader, run: RunRow, status: str) -> Advice:
    """The command that a person most likely needs next."""
    if unsealed.waits(reader.ledger, run):
        return advice.to("retry", run.id)
    if status in NEEDS_DECISION:
        # A batch whose holder is gone can simply be started again: the outcome of each item is recorded.
        return (status == lapse.LAPSED and batch(reader, run)) or advice.to("resolve", run.id)
    if status == statuses.RUNNING:
        return advice.to("logs", "-f", run.id)
    if run.held is not None or (run.approved and status in (statuses.PENDING, *statuses.KEEPS_APPROVAL)):
        return advice.to("approve", run.id)
    if status == statuses.WAITING:
        return start(reader, run) if is_overdue(run) else advice.to("retry", run.id)
    return advice.to("show", run.id)


def choices(reader: StoreReader, run: RunRow, status: str) -> tuple[Advice, ...]:
    """The commands that make sense for the run, the likeliest first."""
    if status in NEEDS_DECISION:
        if status == lapse.LAPSED and (again := batch(reader, run)):
            return (again,)
        verbs = ["resolve", "retry"] if status == statuses.NEEDS_ATTENTION else ["resolve"]
        ordered = reversed(verbs) if unsealed.waits(reader.ledger, run) else verbs
        return tuple(advice.to(verb, run.id) for verb in ordered)
    if status == statuses.RUNNING:
        return advice.to("logs", "-f", run.id), advice.to("cancel", run.id)
    if run.held is not None:
        return advice.to("approve", run.id), advice.to("cancel", run.id)
    if status in statuses.OPEN:
        waits = status == statuses.WAITING and not is_overdue(run)
        return next_of(reader, run, status) if waits else start(reader, run), advice.to("cancel", run.id)
    if statuses.may_start(status):
        return advice.to("logs", run.id), batch(reader, run) or advice.to("retry", run.id)
    return (advice.to("logs", run.id),)


def start(reader: StoreReader, run: RunRow) -> Advice:
    """The command that makes another attempt, as a batch if the run is one."""
    return batch(reader, run) or advice.to("retry", run.id)


def batch(reader: StoreReader, run: RunRow) -> Advice | None:
    """The command that starts a batch again; None if the run is not a batch."""
    recorded = [entry.facts["again"] for entry in reader.ledger.journal.outline(run.id) if entry.kind == kinds.BATCH]
    return _without_store(recorded[-1], run) if recorded else None


def _without_store(line: str, run: RunRow) -> Advice:
    """The command of a recorded shell line, without --store, which the front end adds."""
    import shlex

    try:
        words = shlex.split(line)[1:]
    except ValueError:  # a redacted secret took a quote with it
        return advice.to("show", run.id)
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            kept += [word, *rest]
        elif word == "--store":
            next(rest, "")
        elif not word.startswith("--store="):
            kept.append(word)
    return advice.to(*kept)


def title(run: RunRow) -> str:
    return f"run {run.id} of {run.job}"


def facts(run: RunRow, status: str) -> dict[str, object]:
    """The fields of the JSON output: times in seconds since the epoch, the status as shown."""
    return {
        "version": 1,
        "run": run.id,
        "job": run.job,
        "key": run.key,
        "slot": run.slot,
        "status": status,
        "attempt": run.attempt,
        "token": run.token,
        "holder": str(run.holder) if run.attempt else "",
        "host": run.host,
        "command": run.command,
        "cancel": run.cancel,
        "exit_code": run.exit_code,
        "reason": run.reason,
        "created": run.created,
        "changed": run.changed,
        "started": run.started,
        "ended": run.ended,
        "due": run.due,
        "held": run.held,
        "approved": bool(run.approved),
        "elapsed": run.elapsed,
        "progress": {"done": run.done, "total": run.total, "message": run.message},
        "usage": run.usage.by_unit(),
        "head": run.anchor,
    }


def attempt_facts(attempt: Attempt) -> dict[str, object]:
    return {
        "attempt": attempt.attempt,
        "token": attempt.token,
        "holder": str(attempt.holder),
        "status": attempt.status,
        "exit_code": attempt.exit_code,
        "reason": attempt.reason,
        "started": attempt.started,
        "ended": attempt.ended,
        "elapsed": attempt.elapsed,
    }


def entry_facts(entry: Entry) -> dict[str, object]:
    return {"at": entry.at, "chain": entry.chain, "seq": entry.seq, "kind": entry.kind, "facts": entry.facts}


def short_command(reader: StoreReader, run: str, command: Advice) -> str:
    """The command to type, with the run's id shortened to a unique beginning."""
    short = reader.ledger.history.short(run)
    return advice.text(advice.to(*(short if word == run else word for word in command.words)))
