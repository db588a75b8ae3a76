"""Prometheus metrics, read from ledger and store at each scrape: no run waits for them.

Counters come from the tally, which is never pruned: no restart and no retention resets them. No label holds a run, a
key or a tag; beyond a thousand jobs, the others are summed as `_other`.
"""

from __future__ import annotations

from .. import __version__
from ..core import row as rows
from ..core import statuses
from ..core.printable import printable
from ..errors import StoreUnreachable, UsageError
from ..ledger import kinds
from ..system import extras

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, SummaryMetricFamily
except ImportError:
    raise UsageError(f"metrics need prometheus-client: {extras.install('metrics')}") from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from ..core.job import Job
    from .reader import StoreReader

MOST_JOBS = 1000
OTHER = "_other"


def text(reader: StoreReader, jobs: Mapping[str, Job] | None = None) -> bytes:
    """The metrics in Prometheus's text format. `jobs`: the jobs of nightlatch.toml, for their budgets."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(reader, jobs or {}))
    return bytes(generate_latest(registry))


class Collector:
    """Registered with Prometheus's registry; each scrape reads everything once."""

    def __init__(self, reader: StoreReader, jobs: Mapping[str, Job]) -> None:
        self._reader, self._jobs = reader, jobs
        self._labelled: set[str] = set()  # jobs with a label of their own; the others are OTHER

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        self._labelled = set(sorted(self._reader.ledger.history.jobs())[:MOST_JOBS])
        yield InfoMetricFamily("nightlatch_build", "The version of Nightlatch.", value={"version": __version__})
        yield from self._runs()
        yield from self._usage()
        yield from self._now()
        yield from self._slots()
        yield from self._budgets()
        yield from self._alerts()

    def _job(self, name: str) -> str:
        return name if name in self._labelled else OTHER

    def _runs(self) -> Iterator[Metric]:
        runs, seconds, attempts = _Sums(), _Sums(), _Sums()
        for row in self._reader.ledger.history.tallies(("job", "status"), running=False):
            if row.status:
                runs.add((self._job(row.job), row.status), row.runs)
                attempts.add((self._job(row.job),), row.attempts)
                seconds.add((self._job(row.job),), row.elapsed)
        yield runs.counter("nightlatch_runs", "Runs that have ended.", ("job", "status"))
        duration = SummaryMetricFamily(
            "nightlatch_run_duration_seconds", "How long attempts of runs took.", labels=("job",)
        )
        for labels, count in attempts.items():
            duration.add_metric(labels, count_value=int(count), sum_value=seconds[labels])
        yield duration

    def _usage(self) -> Iterator[Metric]:
        tallies = self._reader.ledger.history.tallies(("job", "model"))
        for unit, help_ in (("usd", "Money, in US dollars."), ("tokens", "Tokens."), ("calls", "Calls to models.")):
            used = _Sums()
            for row in tallies:
                if amount := getattr(row.amounts, unit):
                    used.add((self._job(row.job), row.model), amount)
            name = f"nightlatch_usage_{unit}"
            yield used.counter(name, f"What was used. {help_}", ("job", "model"))

    def _now(self) -> Iterator[Metric]:
        ledger, open_runs, success = self._reader.ledger, _Sums(), _Sums()
        for status in (*statuses.OPEN, *statuses.NEEDS_PERSON):
            for run in ledger.history.runs(status=status):
                open_runs.add((self._job(run.job), self._reader.status(run)), 1)
        yield open_runs.gauge("nightlatch_open_runs", "Runs that have not ended.", ("job", "status"))
        for job, at in ledger.history.last_successes():
            success.keep_largest((self._job(job),), at)
        yield success.gauge("nightlatch_last_success_timestamp_seconds", "When a run last succeeded.", ("job",))
        refusals = _Sums()
        for entry in ledger.journal.rare_entries(kinds.REFUSED, most=100_000):
            refusals.add((self._job(entry.chain.removeprefix("job:")),), 1)
        yield refusals.counter("nightlatch_refusals", "Writes of stale holders that were refused.", ("job",))

    def _slots(self) -> Iterator[Metric]:
        outcomes, due = _Sums(), _Sums()
        for job, outcome, count in self._reader.ledger.history.slot_outcomes():
            outcomes.add((self._job(job), outcome), count)
        yield outcomes.counter("nightlatch_slots", "What became of due times.", ("job", "outcome"))
        try:
            for row in map(rows.read, self._reader.store.cursors()):
                if row.next_slot is not None:
                    self._labelled |= {row.job} if len(self._labelled) < MOST_JOBS else set()
                    due.keep_largest((self._job(row.job),), row.next_slot)
        except StoreUnreachable:
            pass  # report at least what the ledger knows
        yield due.gauge("nightlatch_next_slot_timestamp_seconds", "When the job's next slot is due.", ("job",))

    def _budgets(self) -> Iterator[Metric]:
        caps, spent = _Sums(), _Sums()
        for name, job in self._jobs.items():
            for cap in job.budget:
                if cap.unit == "usd":
                    caps.keep_largest((self._job(name), cap.period), cap.amount)
                    if cap.period != "run":
                        spent.keep_largest(
                            (self._job(name), cap.period),
                            self._reader.ledger.period_usage.of_job(name, "usd", cap.period),
                        )
        labels = ("job", "period")
        yield caps.gauge("nightlatch_budget_usd", "The cap of a period.", labels)
        yield spent.gauge("nightlatch_budget_spent_usd", "What was used of the cap so far.", labels)

    def _alerts(self) -> Iterator[Metric]:
        outcomes = _Sums()
        for transport, status, count in self._reader.ledger.outbox.counts():
            outcomes.add((transport, status), count)
        yield outcomes.counter("nightlatch_alerts", "Alerts, by what became of them.", ("transport", "outcome"))


class _Sums(dict[tuple[str, ...], float]):
    """Sums by labels. Labels are made printable: an agent may report anything as a model's name."""

    def add(self, labels: tuple[str, ...], amount: float) -> None:
        shown = tuple(map(printable, labels))
        self[shown] = self.get(shown, 0.0) + amount

    def keep_largest(self, labels: tuple[str, ...], amount: float) -> None:
        shown = tuple(map(printable, labels))
        self[shown] = max(self.get(shown, 0.0), amount)

    def counter(self, name: str, help: str, labels: tuple[str, ...]) -> Metric:
        return self._filled(CounterMetricFamily(name, help, labels=labels))

    def gauge(self, name: str, help: str, labels: tuple[str, ...]) -> Metric:
        return self._filled(GaugeMetricFamily(name, help, labels=labels))

    def _filled(self, family: CounterMetricFamily | GaugeMetricFamily) -> Metric:
        for labels, amount in sorted(self.items()):
            family.add_metric(labels, amount)
        return family
