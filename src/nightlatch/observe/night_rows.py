"""The first screen's rows as plain values: what needs you, what is running, what waits, and what is done, by job."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..core import advice, statuses
from ..core.advice import Advice
from ..core.value import value
from ..ledger.records import RunRow
from ..runtime.supervisor.afterwards import lapse
from ..system import clock
from . import figures, run_facts
from .overview import Overview
from .reader import StoreReader
from .run_views import RunView
from .verdict import expected_end

DOUBT, PERSON, BROKEN, WORKS, WELL, WAITS = "doubt", "person", "broken", "works", "well", "waits"  # a row's mark
_SPARKLINE = 8  # runs that it shows
_MARKS = {statuses.IN_DOUBT: DOUBT, statuses.NEEDS_ATTENTION: PERSON, statuses.WAITING: PERSON}
_UNCLAIMED = "no machine has claimed its slot: is `nightlatch serve` running?"
_BAR = 12  # cells of a progress bar


@value(frozen=True, kw_only=True)
class NightRow:
    mark: str
    job: str
    word: str  # the status, or how long the runs took
    at: float | None = None
    reason: str = ""  # as it was reported: a front end makes it safe to show
    next: Advice
    run: str = ""  # the run's id; only in rows of waiting runs


@value(frozen=True, kw_only=True)
class NightPart:
    title: str
    rows: tuple[NightRow, ...]
    more: int = 0  # rows that are not shown
    capped: bool = False  # there may be more runs, which were not read


def parts(reader: StoreReader, view: Overview, shown: dict[str, int]) -> list[NightPart]:
    """The parts that have rows. `shown`: how many rows to show, by the part's title."""
    besides = (*_overdue(view), *_agents(view), *_demoted(view), *_undelivered(view), *_decisions(view))
    needs = [*besides, *(_needs_you(reader, one) for one in view.needs_you.runs)]
    found = {
        "needs you": (needs, view.needs_you.capped),
        "running": ([_running(reader, one) for one in view.running.runs], view.running.capped),
        "waiting": (waiting(view), view.waiting.capped),
        "done": (_done(reader, view.done.runs), view.done.capped),
    }
    return [
        NightPart(title=title, rows=tuple(rows[: shown[title]]), more=max(len(rows) - shown[title], 0), capped=capped)
        for title, (rows, capped) in found.items()
        if rows
    ]


def _overdue(view: Overview) -> list[NightRow]:
    return [
        NightRow(mark=BROKEN, job=row.job, word="overdue", at=row.next_due, reason=_UNCLAIMED,
                 next=advice.to("slots", row.job))
        for row in view.overdue
    ]  # fmt: skip


def _agents(view: Overview) -> list[NightRow]:
    return [
        NightRow(mark=BROKEN, job=one.row.job, word="left running", at=one.row.began, reason=one.sentence,
                 next=one.cancel)
        for one in view.agents
    ]  # fmt: skip


def _demoted(view: Overview) -> list[NightRow]:
    """Jobs that lost their stage."""
    return [
        NightRow(mark=BROKEN, job=row.job, word="demoted", at=(row.change or {}).get("at"),
                 reason=f"now {row.stage}: {(row.change or {}).get('why')}",
                 next=advice.to("promote", row.job))
        for row in view.demoted
    ]  # fmt: skip


def _undelivered(view: Overview) -> list[NightRow]:
    return [
        NightRow(mark=BROKEN, job=one.transport, word="undelivered", at=one.changed, reason=f"an alert: {one.reason}",
                 next=advice.to("alerts"))
        for one in view.undelivered
    ]  # fmt: skip


def _earned(view: Overview) -> list[NightRow]:
    """Jobs that have earned the next stage; only a person promotes them."""
    return [
        NightRow(mark=PERSON, job=row.job, word=row.stage, reason="has earned the next stage",
                 next=advice.to("promote", row.job))
        for row in view.earned
    ]  # fmt: skip


def waiting(view: Overview) -> list[NightRow]:
    """Runs that wait for their turn or their next try, and jobs that wait without a run."""
    return [*map(_waiting, view.waiting.runs), *waiting_besides_runs(view)]


def waiting_besides_runs(view: Overview) -> list[NightRow]:
    """Jobs that were not started because their budget is spent, and jobs that have earned the next stage."""
    refused = [
        NightRow(
            mark=WAITS,
            job=one.job,
            word="not started",
            at=one.last,
            reason=run_facts.refused_times(one),
            next=advice.to("usage"),
        )
        for one in view.unaffordable
    ]
    return [*refused, *_earned(view)]


def _decisions(view: Overview) -> list[NightRow]:
    return [
        NightRow(
            mark=DOUBT if one.status != lapse.LAPSED else BROKEN,
            job=one.of,
            word=_spaced(one.status),
            at=one.changed,
            reason=": ".join(filter(None, (f"{one.count} items" if one.count > 1 else one.key, one.note))),
            next=one.resolve(),
        )
        for one in view.decisions_besides_runs
    ]


def _needs_you(reader: StoreReader, view: RunView) -> NightRow:
    run = view.run
    reason = view.note
    if run.status in statuses.FAILURES and run.reason in ("", f"exit code {run.exit_code}"):
        reason = ": ".join(filter(None, (run.reason, run_facts.last_line(reader, run))))
    elif run.status in (statuses.TIMED_OUT, statuses.STALLED):
        reason = "; ".join(filter(None, (run.reason, run_facts.last_line(reader, run))))
    times = _failures_in_a_row(reader, run) if run.status in statuses.FAILURES else 1
    again = f"{figures.ordinal(times)} time in a row" if times > 1 else ""
    key = "" if view.key == "by hand" else view.key
    return NightRow(
        mark=_MARKS.get(view.status, BROKEN),
        job=run.job,
        word=_spaced(view.status),
        at=run.changed,
        reason=_joined(key, "; ".join(filter(None, (again, reason)))),
        next=view.next,
    )


def _running(reader: StoreReader, view: RunView) -> NightRow:
    run, facts = view.run, run_facts.run_facts(reader, view.run, view.status)
    spent = figures.span(max(clock.wall() - run.started, 1)) if run.started else ""
    limit = f" of {figures.span(facts.timeout)}" if facts.timeout else ""
    bar = ""
    if run.total:
        full = round(_BAR * min(run.done / run.total, 1))
        bar = f"{run.done}/{run.total} {'█' * full}{'░' * (_BAR - full)}"
    elif run.done:
        bar = f"{run.done} done"
    cost = figures.money(run.usage.usd) if run.usage.usd else ""
    cost += f" of {figures.money(facts.budget_usd)}" if cost and facts.budget_usd else ""
    end = expected_end(facts)
    parts = (bar, cost, f"done about {run_facts.at(end)}" if end else "", run.message)
    cancel = f"cancel requested by {run.cancel}" if run.cancel else ""
    reason = ", ".join(filter(None, (*parts, cancel)))
    return NightRow(mark=WORKS, job=run.job, word=f"{spent}{limit}", reason=reason, next=view.next)


def _waiting(view: RunView) -> NightRow:
    run = view.run
    ahead = run.due - clock.wall() if run.due is not None else 0.0
    due = f"due in {figures.span(ahead)}" if ahead >= 1 else "due now" if run.due is not None else ""
    return NightRow(
        mark=WAITS, job=run.job, word=view.status, at=run.due or run.changed,
        reason=_joined(view.key, "; ".join(filter(None, (due, view.note)))), next=view.next, run=run.id,
    )  # fmt: skip


def _done(reader: StoreReader, runs: Sequence[RunView]) -> list[NightRow]:
    """A row for each job, the newest first."""
    by_job: dict[str, list[RunView]] = {}
    for one in runs:
        by_job.setdefault(one.run.job, []).append(one)
    return [_done_row(reader, job, ended) for job, ended in by_job.items()]


def _done_row(reader: StoreReader, job: str, runs: list[RunView]) -> NightRow:
    newest = runs[0]
    usd = sum(one.run.usage.usd for one in runs)
    notes = []
    if usd:
        series = [point.amounts.usd for point in reader.ledger.history.series(job, most=_SPARKLINE)]
        notes.append(f"{figures.money(usd)} {figures.sparkline(series)}")
    if len(runs) == 1 and newest.run.attempt > 1:
        notes.append(f"at the {figures.ordinal(newest.run.attempt)} attempt")
    cancelled = sum(one.status == statuses.CANCELLED for one in runs)
    notes += [f"{cancelled} cancelled"] if cancelled else []
    notes += [newest.run.reason] if newest.run.reason and len(runs) == 1 else []
    took = figures.span(median(one.run.elapsed for one in runs))
    return NightRow(
        mark=WELL if newest.status == statuses.SUCCEEDED else WAITS,
        job=job,
        word=f"{len(runs)} × {took}",
        at=newest.run.changed,
        reason="; ".join(notes),
        next=newest.next if len(runs) == 1 else advice.to("runs", "--job", job),
    )


def _failures_in_a_row(reader: StoreReader, run: RunRow) -> int:
    """How many of the job's runs have failed one after another, up to this one."""
    count = 0
    for at, status, _ in reversed(reader.ledger.history.newest_outcomes(run.job)):
        if at > run.changed:
            continue
        if status not in statuses.FAILURES:
            break
        count += 1
    return count


def _joined(key: str, reason: str) -> str:
    return ": ".join(filter(None, (key, reason)))


def _spaced(status: str) -> str:
    return status.replace("-", " ")
