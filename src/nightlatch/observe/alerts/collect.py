"""From the journal to the outbox: the rules judge what is new on a job's chain, in one transaction with the reader's
cursor. What takes longer (has the job left its level? is its budget nearly used?) is looked up before that
transaction."""

from __future__ import annotations

from ...core import budget, statuses
from ...core.value import replace
from ...ledger import kinds
from ...ledger.chain import job_chain
from ...ledger.ledger import Ledger
from ...ledger.outbox import Alert, Judged, Problem
from ...ledger.records import Entry
from .. import figures
from ..changes import job_changes
from ..reader import StoreReader
from .rules import BUDGET_80, CHANGED, DECIDED, OF_KIND, OF_STATUS, RECOVERED, REMINDER, RULES, RUNS
from .settings import AlertSettings

_NEARLY_USED = 0.8  # a cap of which at least this share is used is nearly used


def collect(ledger: Ledger, reader: StoreReader, settings: AlertSettings) -> int:
    """Judge what is new on every job's chain; returns the number of new entries."""
    journal = ledger.outbox.reader
    journal.begin()
    return sum(_read(ledger, reader, settings, job) for job in journal.news())


def _read(ledger: Ledger, reader: StoreReader, settings: AlertSettings, job: str) -> int:
    looked_up = _alerts_from_lookups(reader, settings, job, ledger.outbox.reader.unread(job))

    def judge(entries: list[Entry], problems: dict[str, Problem]) -> Judged:
        judging = _Judge(settings, job, problems)
        for entry in entries:
            judging.judge(entry)
        judging.judged.alerts += looked_up
        return judging.judged

    return ledger.outbox.read(job, judge)


class _Judge:
    def __init__(self, settings: AlertSettings, job: str, problems: dict[str, Problem]) -> None:
        self._settings, self._job, self._problems = settings, job, problems
        self.judged = Judged()

    def judge(self, entry: Entry) -> None:
        run, status = entry.facts.get("run", ""), entry.facts.get("status", "")
        if entry.kind == kinds.ENDED and status in OF_STATUS:
            self._went_wrong(entry, RUNS, OF_STATUS[status], run)
        elif entry.kind == kinds.ENDED and status == statuses.SUCCEEDED:
            self._went_well(entry, RUNS, run)
        elif entry.kind in OF_KIND:
            rule = OF_KIND[entry.kind]
            if rule == OF_STATUS.get(statuses.NEEDS_ATTENTION):
                self._went_wrong(entry, RUNS, rule, run)
            else:
                self._alert(entry, rule, run, _detail(entry))
        elif entry.kind in DECIDED and RUNS in self._problems:
            self._resolve(RUNS)  # a person has dealt with it

    def _went_wrong(self, entry: Entry, subject: str, rule: str, run: str) -> None:
        before = self._problems.get(subject)
        problem = Problem(
            job=self._job, subject=subject, rule=rule, run=run, since=before.since if before else entry.at,
            count=before.count + 1 if before else 1, reported=before.reported if before else 0.0,
        )  # fmt: skip
        after = 1 if RULES[rule].at_once else self._settings.of(self._job).after
        if problem.count >= after:
            self._alert(entry, rule, run, "")
            problem = replace(problem, reported=entry.at)
        self._problems[subject] = problem
        self.judged.problems.append(problem)

    def _went_well(self, entry: Entry, subject: str, run: str) -> None:
        """Report the recovery only if the problem was reported."""
        before = self._problems.get(subject)
        if before and before.reported:
            self._alert(entry, RECOVERED, run, "")
        if before:
            self._resolve(subject)

    def _resolve(self, subject: str) -> None:
        del self._problems[subject]
        self.judged.problems = [problem for problem in self.judged.problems if problem.subject != subject]
        self.judged.resolved.append((self._job, subject))

    def _alert(self, entry: Entry, rule: str, run: str, detail: str) -> None:
        id_ = f"{job_chain(self._job)}:{entry.seq}:{rule}"
        self.judged.alerts += alerts(self._settings, id_, rule, self._job, entry.at, run=run, detail=detail)


def alerts(
    settings: AlertSettings, id_: str, rule: str, job: str, at: float, *, run: str = "", detail: str = ""
) -> list[Alert]:
    """The alert, once for each transport that sends it."""
    return [
        Alert(id=id_, transport=transport, rule=rule, job=job, run=run, at=at, detail=detail)
        for transport in settings.routes(job, rule)
    ]


def remind(ledger: Ledger, settings: AlertSettings) -> None:
    """Remind of problems that were reported and persist."""
    for problem in ledger.outbox.problems():
        every = settings.of(problem.job).remind
        if every is None or not problem.reported:
            continue

        def judge(problems: dict[str, Problem], now: float, known: Problem = problem, every: float = every) -> Judged:
            judged, found = Judged(), problems.get(known.subject)
            if found and found.reported and now - found.reported >= every:
                count = f"{figures.ordinal(found.count)} time in a row, " if found.count > 1 else ""
                detail = f"{RULES[found.rule].title}, {count}for {figures.span(now - found.since)}"
                id_ = f"{job_chain(known.job)}:{known.subject}:{int(found.reported)}:{REMINDER}"
                judged.alerts += alerts(settings, id_, REMINDER, known.job, now, run=found.run, detail=detail)
                judged.problems.append(replace(found, reported=now))
            return judged

        ledger.outbox.observe(problem.job, judge)


def _detail(entry: Entry) -> str:
    kind = kinds.ROWS.get(entry.kind)
    return kind.describe(entry.facts) if kind else entry.kind


def _alerts_from_lookups(reader: StoreReader, settings: AlertSettings, job: str, entries: list[Entry]) -> list[Alert]:
    """Alerts that need more than the new entries: a budget is nearly used, or the job has left its usual level."""
    ended = [entry for entry in entries if entry.kind == kinds.ENDED]
    if not ended:
        return []
    found = _budgets(reader, settings, job, ended[-1])
    runs = {entry.facts.get("run") for entry in ended if entry.facts.get("status") == statuses.SUCCEEDED}
    if runs and settings.routes(job, CHANGED):
        for change in job_changes(reader, job).current:
            if change.shift.certain_at.run in runs:
                what = f"{change.what} {figures.times(change.shift.factor)} the usual"
                facts = ", ".join(one.fact for one in change.differences) or "none of the recorded facts"
                id_ = f"{job_chain(job)}:{change.shift.first.run}:{change.what}:{CHANGED}"
                detail = f"{what} since run {change.shift.first.run}; what differs: {facts}"
                found += alerts(settings, id_, CHANGED, job, ended[-1].at, detail=detail)
    return found


def _budgets(reader: StoreReader, settings: AlertSettings, job: str, ended: Entry) -> list[Alert]:
    """An alert for each cap of a day or month that is nearly used. Its id names the period: it is sent once in each."""
    started = [
        entry for entry in reader.ledger.journal.of_run(ended.facts.get("run", "")) if entry.kind == kinds.STARTED
    ]
    words = started[-1].facts.get("bounds", "").split() if started else []
    found: list[Alert] = []
    for word in words:
        if "/day=" not in word and "/month=" not in word:
            continue
        (cap,) = budget.parse(word)
        used = reader.ledger.period_usage.of_job(job, cap.unit, cap.period)
        if used >= cap.amount * _NEARLY_USED:
            day = reader.ledger.history.day(ended.at)
            period = day if cap.period == "day" else day[:7]
            detail = f"{used:g} of {cap.amount:g} {cap.unit} of its {cap.period} are used"
            id_ = f"{job_chain(job)}:{cap.unit}/{cap.period}:{period}:{BUDGET_80}"
            found += alerts(settings, id_, BUDGET_80, job, ended.at, detail=detail)
    return found
