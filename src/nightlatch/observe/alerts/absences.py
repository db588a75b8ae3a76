"""Alerts about what has not happened, which no journal entry shows: a run whose holder is gone, a try or a slot that
was not begun, an approval that was not given.

An alert's id is made from what is missing. The alert is sent only if two looks a minute apart find the same thing
missing, so that nothing is sent between a holder's death and the takeover.
"""

from __future__ import annotations

from ...core import statuses
from ...core.schedule import name_of
from ...core.value import replace
from ...ledger.chain import job_chain
from ...ledger.ledger import Ledger
from ...ledger.outbox import Judged, Problem
from ...ledger.records import RunRow
from ...runtime.supervisor.afterwards import lapse
from .. import run_views, slots
from ..reader import StoreReader
from .collect import alerts
from .rules import EXPIRES, LAPSED, OVERDUE, RECOVERED
from .settings import AlertSettings

APART = 60.0  # seconds between the two looks: as long as the default TTL of a lease
_MOST = 200  # runs read of each status
_ABSENCES = (LAPSED, OVERDUE, EXPIRES)
_SOON = 3600.0  # the alert is sent so many seconds before an approval expires


def look(ledger: Ledger, reader: StoreReader, settings: AlertSettings) -> None:
    missing = _missing(reader)
    known = {(one.job, one.subject): one for one in ledger.outbox.problems() if one.rule in _ABSENCES}
    for job in {job for job, _ in (*missing, *known)}:
        here = {subject: found for (name, subject), found in missing.items() if name == job}
        ended = [subject for name, subject in known if name == job and (name, subject) not in missing]

        def judge(
            problems: dict[str, Problem],
            now: float,
            job: str = job,
            here: dict[str, tuple[str, str]] = here,
            ended: list[str] = ended,
        ) -> Judged:
            return _judge(settings, job, here, ended, problems, now)

        ledger.outbox.observe(job, judge)


def _missing(reader: StoreReader) -> dict[tuple[str, str], tuple[str, str]]:
    """(job, what is missing) → (rule, run's id or "")."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for run in reader.ledger.history.runs(status=statuses.RUNNING, limit=_MOST):
        if reader.status(run) == lapse.LAPSED:
            found[run.job, f"{LAPSED}:{run.id}:{run.attempt}"] = LAPSED, run.id
    for run in reader.ledger.history.runs(status=statuses.WAITING, limit=_MOST):
        if run.held is not None and run.held - _SOON <= reader.ledger.clock() < run.held and _waited_long(run):
            found[run.job, f"{EXPIRES}:{run.id}:{run.attempt}"] = EXPIRES, run.id
        if run_views.is_overdue(run):
            found[run.job, f"{OVERDUE}:{run.id}:{run.attempt}"] = OVERDUE, run.id
    for row in slots.overdue(reader):
        found[row.job, f"{OVERDUE}:slot:{name_of(row.next_due)}"] = OVERDUE, ""
    return found


def _waited_long(run: RunRow) -> bool:
    """Was the approval requested long before it expires? Otherwise the alert about the request is still recent."""
    return run.held is not None and run.held - run.changed > 2 * _SOON


def _detail(subject: str, run: str) -> str:
    return "" if run else f"its slot {subject.rpartition(':slot:')[2]} is over, and no machine has begun it"


def _judge(
    settings: AlertSettings, job: str, here: dict[str, tuple[str, str]], ended: list[str],
    problems: dict[str, Problem], now: float,
) -> Judged:  # fmt: skip
    judged = Judged()
    for subject, (rule, run) in here.items():
        before = problems.get(subject)
        problem = before or Problem(job=job, subject=subject, rule=rule, run=run, since=now)
        certain = rule == EXPIRES or (before is not None and now - before.since >= APART)
        if certain and not problem.reported:
            judged.problems.append(replace(problem, reported=now))
            judged.alerts += alerts(
                settings, f"{job_chain(job)}:{subject}", rule, job, now, run=run, detail=_detail(subject, run)
            )
        elif before is None:
            judged.problems.append(problem)
    for subject in ended:
        before = problems.get(subject)
        if before and before.reported and before.rule != EXPIRES:  # a decided or expired request did not recover
            id_ = f"{job_chain(job)}:{subject}:{RECOVERED}"
            judged.alerts += alerts(settings, id_, RECOVERED, job, now, run=before.run)
        if before:
            judged.resolved.append((job, subject))
    return judged
