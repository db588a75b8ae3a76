"""One run: what it is, its attempts, its journal, what was refused, the end of its output, and what to type next."""

from __future__ import annotations

from ..core import advice, statuses
from ..core.value import value
from ..ledger import kinds
from ..runtime.shared import plan
from ..runtime.supervisor.run import kept_output
from . import open_decisions
from .run_views import RunView, attempt_facts, choices, entry_facts, view
from .timeline import timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.advice import Advice
    from ..core.units import Amounts
    from ..ledger.records import Attempt, Entry, RunRow
    from ..runtime.shared.plan import Plan
    from .open_decisions import OpenDecision
    from .reader import StoreReader
    from .timeline import Event

_TAIL = 10  # lines of output


@value(frozen=True, kw_only=True)
class Details(RunView):
    attempts: tuple[Attempt, ...]
    entries: tuple[Entry, ...]  # of the journal, refusals too
    tail: tuple[str, ...]  # the last lines of its output, as they were printed
    items: dict[str, int]  # of a batch: how many in each status
    undecided_items: tuple[OpenDecision, ...]
    elsewhere: tuple[OpenDecision, ...]  # what other machines have left behind of the same job
    calls: tuple[tuple[str, str, str, Amounts], ...]  # to models: model, subagent, kind of token, what that used
    choices: tuple[Advice, ...]  # what may be typed about it, the likeliest first

    @property
    def timeline(self) -> list[Event]:
        """What happened, in sentences, but for what was refused."""
        return timeline([entry for entry in self.entries if entry.kind != kinds.REFUSED])

    @property
    def refused(self) -> list[Event]:
        return timeline(self.refusals)

    @property
    def refusals(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind == kinds.REFUSED)

    def facts(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            **super().facts(),
            "attempts": [attempt_facts(attempt) for attempt in self.attempts],
            "timeline": [entry_facts(entry) for entry in self.entries],
            "refusals": [entry_facts(entry) for entry in self.refusals],
            "tail": list(self.tail),
            "items": self.items,
            "calls": [
                {"model": model, "agent": agent, "kind": kind, **used.by_unit()}
                for model, agent, kind, used in self.calls
            ],
        }


def details(reader: StoreReader, run: RunRow) -> Details:
    seen = view(reader, run)
    tail = kept_output.tail(kept_output.folder_of(reader.store.folder, run.id), _TAIL)
    items = reader.ledger.items.counts(run.job)
    return Details(
        run=run,
        status=seen.status,
        next=seen.next,
        attempts=tuple(reader.ledger.attempts(run.id)),
        entries=tuple(_journal(reader, run)),
        tail=tuple(line.decode(errors="replace") for line in tail),
        items=items,
        undecided_items=tuple(open_decisions.items(reader, batch=run.job)) if items else (),
        elsewhere=tuple(open_decisions.elsewhere(reader, run.job)),
        calls=tuple(reader.ledger.history.calls_of(run.id)),
        choices=(*choices(reader, run, seen.status), *_more(run)),
    )


def _more(run: RunRow) -> tuple[Advice, ...]:
    """Its budget is spent: a person may give it more."""
    return (advice.to("budget", run.id, "usd=5"),) if run.status == statuses.OVER_BUDGET else ()


def newest_plan(reader: StoreReader, job: str) -> Plan | None:
    """What the job's newest dry-run found."""
    noted = reader.ledger.noted(job, kinds.PLAN)
    return plan.from_journal(job, noted) if noted else None


def _journal(reader: StoreReader, run: RunRow) -> list[Entry]:
    """The run's own, its steps, and what people and observers put on its job's."""
    links = {kind for kind in kinds.ROWS.values() if kind.is_link}  # they point to the run's own entries
    # A second before it: the job's chain and the run's are stamped by two readings of the clock.
    theirs = [
        entry
        for entry in reader.ledger.job_entries(run.job, run.created - 1)
        if entry.facts.get("run") == run.id and entry.kind not in links
    ]
    mine = [*reader.ledger.entries(run.id), *reader.ledger.step_log.entries(run.id)]
    return sorted([*mine, *theirs], key=lambda entry: entry.at)
