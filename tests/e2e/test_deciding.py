"""`nightlatch cancel`, `retry` and `resolve`: a person decides on a run."""

from __future__ import annotations

import json
import sys

import pytest

from nightlatch.ledger import open_for
from nightlatch.store import url as stores
from tests.support.programs import nightlatch, said
from tests.support.runs import Running, one, run


def test_cancel_from_another_process_ends_the_command_with_120(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent", "--grace", "1s")
    done = nightlatch(sqlite_url, "cancel", running.id[:8], env={"LOGNAME": "ann"})
    assert done.returncode == 0
    assert "asked to end" in done.stdout
    _, err = running.process.communicate(timeout=60)
    assert running.process.returncode == 120
    assert "cancelled by ann@" in err
    assert one(sqlite_url, "agent")["status"] == "cancelled"


def test_what_nobody_has_begun_is_cancelled_at_once(sqlite_url):
    run(sqlite_url, "a", "exit 1")
    found = one(sqlite_url, "a")["run"]
    nightlatch(sqlite_url, "retry", found, "--later")
    assert "is cancelled" in nightlatch(sqlite_url, "cancel", found).stdout
    assert one(sqlite_url, "a")["status"] == "cancelled"


def test_what_has_ended_cannot_be_cancelled(sqlite_url):
    run(sqlite_url, "a", "true")
    assert "ended already" in said(nightlatch(sqlite_url, "cancel", one(sqlite_url, "a")["run"]), 64)


def test_retry_with_later_makes_it_pending_and_says_how_it_is_started(sqlite_url):
    run(sqlite_url, "a", "exit 1", key="a key")
    found = one(sqlite_url, "a")["run"]
    done = nightlatch(sqlite_url, "retry", found, "--later")
    assert done.returncode == 0
    assert f"nightlatch retry {found}" in done.stdout
    assert one(sqlite_url, "a")["status"] == "pending"
    assert run(sqlite_url, "a", "true", key="a key").returncode == 0
    report = one(sqlite_url, "a")
    assert (report["run"], report["status"], report["attempt"]) == (found, "succeeded", 2)


def test_what_succeeded_is_not_retried(sqlite_url):
    run(sqlite_url, "a", "true")
    assert "--again" in said(nightlatch(sqlite_url, "retry", one(sqlite_url, "a")["run"]), 64)


def test_what_is_in_doubt_is_not_retried_before_it_is_resolved(sqlite_url, in_doubt):
    assert f"nightlatch resolve {in_doubt}" in said(nightlatch(sqlite_url, "retry", in_doubt), 76)


def test_resolve_without_an_outcome_lists_the_choices_each_ready_to_type(sqlite_url, in_doubt):
    done = nightlatch(sqlite_url, "resolve", in_doubt)
    assert done.returncode == 76 and "is in-doubt: " in done.stdout
    report = nightlatch(sqlite_url, "resolve", in_doubt, "--json")
    assert report.returncode == 76 and json.loads(report.stdout)["outcomes"] == ["done", "failed", "again"]
    for outcome in ("done", "failed", "again"):
        assert f"nightlatch resolve {in_doubt} {outcome} " in done.stdout
    assert "|" not in done.stdout
    assert one(sqlite_url, "crawl")["status"] == "in-doubt"


def test_resolved_as_done_is_not_done_again_on_any_machine(sqlite_url, in_doubt):
    assert nightlatch(sqlite_url, "resolve", in_doubt, "done", env={"LOGNAME": "ann"}).returncode == 0
    report = json.loads(nightlatch(sqlite_url, "show", in_doubt, "--json").stdout)
    assert report["status"] == "succeeded"
    assert report["timeline"][-1]["kind"] == "resolved"
    assert report["timeline"][-1]["facts"]["by"].startswith("ann@")
    done = stores.connect(sqlite_url).look("crawl", "k")  # what machines share; the ledger may be each one's own
    assert done and done.value == in_doubt
    again = run(sqlite_url, "crawl", "echo ran")
    assert (again.returncode, again.stdout) == (0, "")
    assert "status=skipped" in again.stderr


@pytest.mark.parametrize(("outcome", "status"), [("failed", "failed"), ("again", "pending")])
def test_resolved_as_failed_or_again_it_is_attempted_again(sqlite_url, in_doubt, outcome, status):
    assert nightlatch(sqlite_url, "resolve", in_doubt, outcome).returncode == 0
    assert one(sqlite_url, "crawl")["status"] == status
    again = run(sqlite_url, "crawl", "echo ran")
    assert (again.returncode, again.stdout) == (0, "ran\n")


@pytest.mark.parametrize(("outcome", "status"), [("done", "succeeded"), ("failed", "failed"), ("again", "pending")])
def test_a_lapsed_run_is_taken_over_and_decided(sqlite_url, lapsed, outcome, status):
    done = nightlatch(sqlite_url, "resolve", lapsed, outcome)
    assert done.returncode == 0, done.stderr
    report = json.loads(nightlatch(sqlite_url, "show", lapsed, "--json").stdout)
    assert report["status"] == status
    (attempt,) = report["attempts"]
    assert attempt["status"] == ("succeeded" if outcome == "done" else "lost")
    assert attempt["reason"].startswith("its holder is gone") and ("resolved as" in attempt["reason"]) == (
        outcome == "done"
    )
    assert (stores.connect(sqlite_url).look("crawl", "k") is not None) == (outcome == "done")
    assert '"held": false' in nightlatch(sqlite_url, "lease", "show", "crawl", "--json").stdout


def test_what_needs_attention_is_pending_again_when_it_is_resolved_so(sqlite_url):
    ledger = open_for(sqlite_url)
    waiting = ledger.decisions.attention(ledger.open_run("a", "k").id, "a gate cannot be sealed", "nightlatch").id
    assert "a gate cannot be sealed" in nightlatch(sqlite_url).stdout
    assert nightlatch(sqlite_url, "resolve", waiting, "again").returncode == 0
    assert one(sqlite_url, "a")["status"] == "pending"


def test_done_waits_for_the_jobs_lease_and_says_who_has_it(sqlite_url, tmp_path, in_doubt):
    other = Running(sqlite_url, tmp_path, "crawl", key="other")
    assert "crawl is held by" in said(nightlatch(sqlite_url, "resolve", in_doubt, "done", "--wait", "0s"), 75)
    assert other.finish() == 0
    assert nightlatch(sqlite_url, "resolve", in_doubt, "done").returncode == 0


def test_there_is_nothing_to_resolve_in_a_run_that_ended(sqlite_url):
    run(sqlite_url, "a", "exit 1")
    found = one(sqlite_url, "a")["run"]
    assert "nothing to resolve" in said(nightlatch(sqlite_url, "resolve", found, "done"), 64)
    assert "use one of done" in said(nightlatch(sqlite_url, "resolve", found, "maybe"), 64)


def test_what_a_command_says_of_its_failure_does_not_make_it_a_run_that_never_started(sqlite_url):
    """It was recognised by the text of its reason: the advice was to start it again, and it may have acted."""
    said_so = (
        "from nightlatch.runtime.shared.client import send; send(do='fail', reason='not started: x', attention=True)"
    )
    nightlatch(sqlite_url, "run", "a", "--key", "k", "--", sys.executable, "-c", f"{said_so}; raise SystemExit(70)")
    found = one(sqlite_url, "a")
    assert (found["status"], found["reason"]) == ("needs-attention", "not started: x")
    shown = nightlatch(sqlite_url, "show", found["run"]).stdout
    assert shown.endswith(f"next\n  nightlatch resolve {found['run']}\n  nightlatch retry {found['run']}\n")
    again = nightlatch(sqlite_url, "run", "a", "--key", "k", "--", "true")
    assert again.returncode == 76 and f"then decide: nightlatch resolve {found['run']}" in again.stderr
