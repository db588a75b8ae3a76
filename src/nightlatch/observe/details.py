"""One run: what it is, its attempts, its journal, what was refused, the end of its output, and what to type next."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import advice, statuses
from ..core.advice import Advice
from ..core.units import Amounts
from ..core.value import value
from ..ledger import kinds
from ..ledger.records import Attempt, Entry, RunRow
from ..ledger.refused_starts import RefusedStart
from ..runtime.shared import plan
from ..runtime.shared.plan import Plan
from ..runtime.supervisor.run import kept_output
from . import open_decisions
from .open_decisions import OpenDecision
from .reader import StoreReader
from .run_views import RunView, attempt_facts, choices, entry_facts, view
from .timeline import Event, timeline

_TAIL = 10  # last lines of output that are shown
_STEPS = 1000  # entries about steps that an outline reads
_LATER = 30 * 86400.0  # an outline looks for notes about a run until so many seconds after its last change


@value(frozen=True, kw_only=True)
class Details(RunView):
    attempts: tuple[Attempt, ...]
    entries: tuple[Entry, ...]  # of the journal, with refusals; some are missing in an outline
    entries_in_all: int  # including those that an outline leaves out
    tail: tuple[str, ...]  # the last lines of its output, as they were printed
    items: dict[str, int]  # of a batch: how many in each status
    undecided_items: tuple[OpenDecision, ...]
    elsewhere: tuple[OpenDecision, ...]  # runs of the same job that other machines have left behind
    calls: tuple[tuple[str, str, str, Amounts], ...]  # to models: (model, subagent, kind of token, usage)
    refused_starts: tuple[RefusedStart, ...]  # of the run's job
    choices: tuple[Advice, ...]  # the commands that make sense for the run, the likeliest first

    @property
    def timeline(self) -> list[Event]:
        """What happened, in sentences; without refusals."""
        return timeline([entry for entry in self.entries if entry.kind != kinds.REFUSED])

    @property
    def traceback(self) -> list[str]:
        """The lines of the traceback that the newest attempt of a Python job reported."""
        newest = max((number for number, entry in enumerate(self.entries) if entry.kind == kinds.STARTED), default=0)
        found = [entry.facts.get("traceback", "") for entry in self.entries[newest:] if entry.kind == kinds.EXCEPTION]
        return found[-1].splitlines() if found else []

    @property
    def refused(self) -> list[Event]:
        return timeline(self.refusals)

    @property
    def refusals(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind == kinds.REFUSED)

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        return {
            **super().facts(),
            "attempts": [attempt_facts(attempt) for attempt in self.attempts],
            "timeline": [entry_facts(entry) for entry in self.entries],
            "refusals": [entry_facts(entry) for entry in self.refusals],
            "tail": list(self.tail),
            "items": self.items,
            "refused_starts": [dict(one.__dict__) for one in self.refused_starts],
            "calls": [
                {"model": model, "agent": agent, "kind": kind, **used.by_unit()}
                for model, agent, kind, used in self.calls
            ],
        }


def details(reader: StoreReader, run: RunRow, *, in_outline: bool = False) -> Details:
    """`in_outline`: of a long journal, read only what the run's end, attempts and verdict need."""
    run_view = view(reader, run)
    tail = kept_output.tail(kept_output.folder_of(reader.store.folder, run.id), _TAIL)
    items = reader.ledger.items.counts(run.job)
    entries, in_all = _outline(reader, run) if in_outline else _journal(reader, run)
    return Details(
        run=run,
        status=run_view.status,
        next=run_view.next,
        attempts=tuple(reader.ledger.attempts(run.id)),
        entries=tuple(entries),
        entries_in_all=in_all,
        tail=tuple(line.decode(errors="replace") for line in tail),
        items=items,
        undecided_items=tuple(open_decisions.items(reader, batch=run.job)) if items else (),
        elsewhere=tuple(open_decisions.elsewhere(reader, run.job)),
        calls=() if in_outline else tuple(reader.ledger.history.calls_of(run.id)),
        refused_starts=tuple(reader.ledger.refused_starts.of(run.job)),
        choices=(*choices(reader, run, run_view.status), *_raise_budget(run)),
    )


def _raise_budget(run: RunRow) -> tuple[Advice, ...]:
    """The command that raises the budget, if the budget ended the run."""
    return (advice.to("budget", run.id, "usd=5"),) if run.status == statuses.OVER_BUDGET else ()


def newest_plan(reader: StoreReader, job: str) -> Plan | None:
    """What the job's newest dry-run found."""
    noted = reader.ledger.journal.last_note(job, kinds.PLAN)
    return plan.from_journal(job, noted) if noted else None


def _journal(reader: StoreReader, run: RunRow) -> tuple[list[Entry], int]:
    """(the entries of the run and its steps, with those about the run on its job's chain; how many these are)"""
    from_job = _entries_about(run, reader.ledger.journal.of_job(run.job, _just_before(run)))
    from_run = [*reader.ledger.journal.of_run(run.id), *reader.ledger.step_log.entries(run.id)]
    return sorted([*from_run, *from_job], key=lambda entry: entry.at), len(from_run) + len(from_job)


def _outline(reader: StoreReader, run: RunRow) -> tuple[list[Entry], int]:
    """Like `_journal`, but with a bounded number of entries; the second value still counts all of them."""
    rare_entries = reader.ledger.journal.rare_entries(job=run.job, since=_just_before(run), until=run.changed + _LATER)
    from_job = _entries_about(run, rare_entries)
    steps, all_steps = reader.ledger.step_log.newest(run.id, _STEPS)
    found = [*reader.ledger.journal.outline(run.id), *steps, *from_job]
    return sorted(found, key=lambda entry: entry.at), run.seq + all_steps + len(from_job)


def _just_before(run: RunRow) -> float:
    """A second before the run was created: the job's chain and the run's are stamped by two readings of the clock."""
    return run.created - 1


def _entries_about(run: RunRow, entries: Iterable[Entry]) -> list[Entry]:
    """Entries about the run on its job's chain, without mere links to the run's own entries."""
    links = {kind for kind in kinds.ROWS.values() if kind.is_link}
    return [entry for entry in entries if entry.facts.get("run") == run.id and entry.kind not in links]
