"""Metrics: they parse with Prometheus' own parser, keep its rules for names, and count what the tally counts."""

from __future__ import annotations

import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nightlatch.core.budget import Cap
from nightlatch.core.job import Job
from nightlatch.core.target import Command
from nightlatch.ledger import kinds
from nightlatch.observe import metrics
from nightlatch.observe.reader import StoreReader
from nightlatch.store import url
from tests.support.ledgers import begun

DOCUMENTED = re.compile(r"`(nightlatch_[a-z_]+)")


@pytest.fixture
def reader(book, ledger_url):
    url.connect(ledger_url).read("nothing")
    list(book.history.runs())
    return StoreReader(ledger_url)


def scrape(reader, jobs=None):
    families = list(text_string_to_metric_families(metrics.text(reader, jobs).decode()))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families for sample in family.samples
    }  # fmt: skip
    return families, samples


def at(samples, name: str, **labels: str) -> float:
    found: float = samples[name, tuple(sorted(labels.items()))]
    return found


def test_what_happened_is_counted_and_keeps_counting_after_the_runs_are_gone(book, reader, monkeypatch):
    writer = begun(book, 1)
    writer.usage({"model": "large", "tag": "site=x"}, usd=0.5, tokens=100, calls=2)
    writer.finish("succeeded", elapsed=2.5)
    begun(book, 2, key="2").finish("failed", elapsed=1.5)
    begun(book, 3, key="3")
    book.journal.note("job", kinds.REFUSED, run="r", attempt=1, token=1, stands=2, what="x")
    jobs = {"job": Job(name="job", target=Command(words=("x",)), budget=(Cap(unit="usd", period="day", amount=10.0),))}
    _, samples = scrape(reader, jobs)
    assert at(samples, "nightlatch_runs_total", job="job", status="succeeded") == 1
    assert at(samples, "nightlatch_runs_total", job="job", status="failed") == 1
    assert at(samples, "nightlatch_run_duration_seconds_sum", job="job") == 4
    assert at(samples, "nightlatch_run_duration_seconds_count", job="job") == 2
    assert at(samples, "nightlatch_usage_usd_total", job="job", model="large") == 0.5
    assert at(samples, "nightlatch_usage_tokens_total", job="job", model="large") == 100
    assert sum(value for (name, _), value in samples.items() if name == "nightlatch_open_runs") == 1
    assert abs(at(samples, "nightlatch_last_success_timestamp_seconds", job="job") - time.time()) < 60
    assert at(samples, "nightlatch_refusals_total", job="job") == 1
    assert at(samples, "nightlatch_budget_usd", job="job", period="day") == 10
    assert at(samples, "nightlatch_budget_spent_usd", job="job", period="day") == 0.5
    with book._tables.database.transaction() as execute:
        for table in ("run", "attempt", "usage"):
            execute(book._tables.sql(f"DELETE FROM {{prefix}}{table}"))
    _, later = scrape(reader)
    assert at(later, "nightlatch_runs_total", job="job", status="succeeded") == 1
    assert at(later, "nightlatch_usage_usd_total", job="job", model="large") == 0.5


def test_names_follow_the_rules_and_are_documented(book, reader):
    begun(book).finish("succeeded", elapsed=1)
    families, samples = scrape(reader)
    for family in families:
        assert family.documentation.endswith(".") and family.name.startswith("nightlatch_")
        counters = [sample.name for sample in family.samples if family.type == "counter"]
        assert all(name.endswith("_total") for name in counters)
        assert not re.search(r"_(ms|minutes|count|milliseconds)$", family.name)
    labels = {name for _, pairs in samples for name, _ in pairs}
    assert labels <= {"job", "status", "model", "period", "outcome", "transport", "version"}
    with open("docs/metrics.md", encoding="utf-8") as file:
        known = set(DOCUMENTED.findall(file.read()))
    names = {re.sub(r"_(sum|count)$", "", name) for name, _ in samples}
    assert {name.removesuffix("_total") for name in names} <= {
        name.removesuffix("_total").removesuffix("_") for name in known
    }


def test_beyond_a_thousand_jobs_the_rest_is_one(book, reader, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_JOBS", 2)
    for number, job in enumerate("abcd", 1):
        begun(book, number, key="k", job=job).finish("succeeded")
    _, samples = scrape(reader)
    assert at(samples, "nightlatch_runs_total", job="_other", status="succeeded") == 2
    assert at(samples, "nightlatch_runs_total", job="a", status="succeeded") == 1


def test_a_hostile_name_stays_a_label(book, reader):
    writer = begun(book)
    writer.usage({"model": 'x"}\nnightlatch_fake 1\n# \\'}, usd=1)
    writer.finish("succeeded")
    families, samples = scrape(reader)
    assert "nightlatch_fake" not in {family.name for family in families}
    assert sum(value for (name, _), value in samples.items() if name == "nightlatch_usage_usd_total") == 1
