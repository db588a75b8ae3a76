"""The last night: what needs a person, what runs, what waits, and what is done."""

from __future__ import annotations

from ..core import statuses
from ..core.row import Row
from ..core.schedule import name_of
from ..core.stage import was_demoted
from ..core.value import value
from ..errors import StoreUnreachable
from ..ledger.outbox import Message
from ..ledger.records import RunRow
from ..ledger.refused_starts import BUDGET, RefusedStart
from ..runtime.supervisor.afterwards import lapse
from ..system import clock
from . import agent_views, evening, open_decisions, slots, stages
from .agent_views import AgentView
from .open_decisions import OpenDecision
from .reader import NEEDS_DECISION, StoreReader
from .run_views import RunView, is_overdue, view

_MOST = 200  # runs read of each status, so that the view of a night does not scan years
_DAY = 86400.0
_URGENCY = (statuses.IN_DOUBT, statuses.NEEDS_ATTENTION, lapse.LAPSED)


@value(frozen=True, kw_only=True)
class Group:
    """Runs, the newest change first."""

    runs: tuple[RunView, ...] = ()
    capped: bool = False  # there may be more runs, which were not read


@value(frozen=True, kw_only=True)
class Overview:
    """Everything that is open or undecided, however old; of the rest, what changed since `since`."""

    since: float | None
    needs_you: Group = Group()  # failed runs too; the most urgent first
    running: Group = Group()
    waiting: Group = Group()
    done: Group = Group()
    undecided: tuple[OpenDecision, ...] = ()  # effects and items in this ledger
    elsewhere: tuple[OpenDecision, ...] | None = ()  # runs of other machines; None: the store did not answer
    unreachable: str = ""  # why the store did not answer
    agents: tuple[AgentView, ...] = ()  # agents at work at a vendor that nobody watches
    overdue: tuple[Row, ...] = ()  # jobs with a slot that no machine has claimed
    undelivered: tuple[Message, ...] = ()  # alerts that could not be sent
    demoted: tuple[Row, ...] = ()  # jobs that lost a stage
    earned: tuple[Row, ...] = ()  # jobs that may be promoted
    unaffordable: tuple[RefusedStart, ...] = ()  # jobs that were not started, since their budget is spent

    @property
    def groups(self) -> dict[str, Group]:
        """In the order in which a person should see them."""
        return {"needs you": self.needs_you, "running": self.running, "waiting": self.waiting, "done": self.done}

    @property
    def decisions_besides_runs(self) -> tuple[OpenDecision, ...]:
        """What else needs a decision, here and on other machines."""
        return (*(self.elsewhere or ()), *self.undecided)

    @property
    def need_you(self) -> int:
        """How many things need a person. Earned promotions do not count: they can wait."""
        besides = (*self.decisions_besides_runs, *self.overdue, *self.agents, *self.demoted, *self.undelivered)
        return len(self.needs_you.runs) + len(besides)

    @property
    def nothing_needs_you(self) -> bool:
        return not self.need_you

    @property
    def empty(self) -> bool:
        return self.nothing_needs_you and not self.unaffordable and not any(g.runs for g in self.groups.values())

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        groups = {name.replace(" ", "_"): [run_view.facts() for run_view in g.runs] for name, g in self.groups.items()}
        return {
            "version": 1,
            "since": self.since,
            "capped": sorted(name for name, group in self.groups.items() if group.capped),
            **groups,
            "effects": [one.facts() for one in self.undecided if not one.batch],
            "items": [one.facts() for one in self.undecided if one.batch],
            "agents": [one.facts() for one in self.agents],
            "demoted": [{"job": row.job, **(row.change or {})} for row in self.demoted],
            "undelivered": [
                {"transport": one.transport, "message": one.id, "at": one.changed, "reason": one.reason}
                for one in self.undelivered
            ],
            "promotable": [row.job for row in self.earned],
            "refused_starts": [dict(one.__dict__) for one in self.unaffordable],
            "overdue": [{"job": row.job, "slot": name_of(row.next_due)} for row in self.overdue],
            "elsewhere": None if self.elsewhere is None else [one.facts() for one in self.elsewhere],
        }


def last_night(reader: StoreReader) -> Overview:
    """The overview since the evening; failures are shown for at least a day."""
    now = clock.wall()
    since = evening.began(reader.ledger.history.zone, now)
    return overview(reader, since, failed_since=min(since, now - _DAY))


def overview(reader: StoreReader, since: float | None, *, failed_since: float | None = None) -> Overview:
    """Runs are read by status, so that a thousand successes do not hide the failure before them."""
    found: dict[str, list[RunView]] = {"needs_you": [], "running": [], "waiting": [], "done": []}
    capped = set()
    for status in statuses.ALL:
        changed_since = since if statuses.is_terminal(status) else None  # open runs stay until they are decided
        if status in statuses.FAILURES and failed_since is not None:
            changed_since = failed_since
        runs = list(reader.ledger.history.runs(status=status, since=changed_since, limit=_MOST))
        for run in runs:
            run_view = view(reader, run)
            found[_group_of_run(reader, run_view)].append(run_view)
        if len(runs) == _MOST:
            capped.add(_group_of_status(status))
    for views in found.values():
        views.sort(key=lambda one: -one.run.changed)
    found["needs_you"].sort(key=lambda one: _URGENCY.index(one.status) if one.status in _URGENCY else len(_URGENCY))
    here, elsewhere = open_decisions.here(reader), open_decisions.elsewhere(reader)
    job_rows = stages.all_rows(reader)
    return Overview(
        since=since,
        **{name: Group(runs=tuple(run_view), capped=name in capped) for name, run_view in found.items()},
        undecided=tuple(here),
        elsewhere=None if reader.unreachable else tuple(elsewhere),
        unreachable=reader.unreachable,
        agents=tuple(one for one in agent_views.open_agents(reader) if one.is_left),
        overdue=tuple(_overdue(reader)),
        undelivered=tuple(reader.ledger.outbox.undelivered(failed_since or since or 0.0)),
        demoted=tuple(row for row in job_rows if was_demoted(row)),
        earned=tuple(stages.earned(reader, job_rows)),
        unaffordable=tuple(_unaffordable(reader, failed_since or since or 0.0)),
    )


def _unaffordable(reader: StoreReader, since: float) -> list[RefusedStart]:
    """Jobs whose last start was refused by their budget."""
    refused = [one for one in reader.ledger.refused_starts.since(since) if one.cause == BUDGET]
    newest = {one.job: reader.ledger.newest(one.job) for one in refused}
    return [one for one in refused if not ((run := newest[one.job]) and run.started and run.started > one.last)]


def _overdue(reader: StoreReader) -> list[Row]:
    try:
        return slots.overdue(reader)
    except StoreUnreachable as error:
        reader.unreachable = reader.unreachable or str(error)
        return []


def is_shut_down(reader: StoreReader, run: RunRow) -> bool:
    """Was the run ended between two tries, but not by a person? Then perhaps nobody knows that it is unfinished."""
    if run.status != statuses.CANCELLED or run.cancel or not run.attempt:
        return False
    return reader.ledger.attempts(run.id)[-1].status != statuses.CANCELLED


def _group_of_run(reader: StoreReader, run_view: RunView) -> str:
    """The group that a run is shown in."""
    run = run_view.run
    if run.held is not None or is_overdue(run):
        return "needs_you"
    if run_view.status in statuses.FAILURES or is_shut_down(reader, run):
        return "done" if reader.needs_nobody(run) else "needs_you"
    return _group_of_status(run_view.status)


def _group_of_status(status: str) -> str:
    if status in NEEDS_DECISION or status in statuses.FAILURES:
        return "needs_you"
    if status == statuses.RUNNING:
        return "running"
    return "waiting" if status in statuses.OPEN else "done"
