"""Managed agents, each vendor on loopback: launched once, watched, ended for real."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch.core.retry import TRY_AGAIN
from tests.support.agents import PROVIDERS, agent, begin, words
from tests.support.programs import children, nightlatch, until
from tests.support.runs import one
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work


@pytest.fixture
def vendor() -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        yield made


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agent_is_launched_once_and_its_answer_is_printed(sqlite_url: str, vendor: ManagedVendor, provider: str):
    vendor.work = Work(polls=2, usd=0.02, tokens=1000)
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the answer\n"
    again = agent(sqlite_url, vendor, provider)
    assert "status=skipped" in again.stderr
    (made,) = vendor.working()
    assert made.messages == 1
    run = one(sqlite_url, "article")
    assert run["usage"]["tokens"] == made.polls * 1000  # the vendor's last figures
    if provider in ("anthropic", "command"):
        assert run["usage"]["usd"] == pytest.approx(made.polls * 0.02)
    else:
        assert run["usage"]["usd"] > 0  # by price
    shown = nightlatch(sqlite_url, "show", run["run"]).stdout
    assert made.id in shown
    launches = [body for _, path, _, body in vendor.requests if "labels" in body or "metadata" in body]
    assert len(launches) == 1 and run["run"].lower() in json.dumps(launches)


def test_a_vendor_that_is_not_the_one_it_claims_to_be_gets_neither_key_nor_launch(sqlite_url: str, tmp_path: Path):
    certificate = tmp_path / "ca.pem"
    with ManagedVendor(certificate=certificate) as vendor:
        refused = agent(sqlite_url, vendor, "openai", "--retries", "0")
        assert refused.returncode == TRY_AGAIN and "certificate verify failed" in refused.stderr
        assert not vendor.requests
        trusting = vendor.environment() | {"SSL_CERT_FILE": str(certificate)}
        done = nightlatch(sqlite_url, *words("openai"), env=trusting)
        assert (done.returncode, done.stdout) == (0, "the answer\n"), done.stderr
        assert [made.messages for made in vendor.working()] == [1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_at_its_timeout_it_is_cancelled_and_the_vendor_says_so(sqlite_url: str, vendor: ManagedVendor, provider: str):
    vendor.work = Work(polls=0, cancel_takes=0.7)
    done = agent(sqlite_url, vendor, provider, "--timeout", "2s")
    assert done.returncode == 124, done.stderr
    (made,) = vendor.working()
    assert made.look() == managed.CANCELLED and made.cancels
    assert one(sqlite_url, "article")["status"] == "timed-out"
    assert nightlatch(sqlite_url, "agent", "list").stdout == "no agents are known to be working\n"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_steps_and_tokens_that_do_not_grow_are_a_stall(sqlite_url: str, vendor: ManagedVendor, provider: str):
    vendor.work = Work(polls=0, steps=False, tokens=0, usd=0.0)
    done = agent(sqlite_url, vendor, provider, "--stall", "3s")
    assert done.returncode == 122, done.stderr
    assert [one.look() for one in vendor.working()] == [managed.CANCELLED]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_failure_of_the_agent_is_one_of_the_run(sqlite_url: str, vendor: ManagedVendor, provider: str):
    vendor.work = Work(becomes=managed.FAILED)
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 1 and "the answer" in done.stdout
    vendor.work = Work()
    assert agent(sqlite_url, vendor, provider).returncode == 0  # another launch: the first has ended
    assert sorted(vendor.launches().values()) == [1, 1]


@pytest.mark.parametrize("provider", ["anthropic", "google", "command"])
def test_one_that_waits_for_a_person_is_cancelled_and_says_what_it_asked(
    sqlite_url: str, vendor: ManagedVendor, provider: str
):
    vendor.work = Work(becomes=managed.WAITING)
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 76 and "deploy" in done.stderr, done.stderr
    run = one(sqlite_url, "article")
    assert run["status"] == "needs-attention" and "production" in run["reason"]
    assert [a.look() for a in vendor.working()] == [managed.CANCELLED]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_state_that_nobody_knows_is_running_until_the_timeout(sqlite_url: str, vendor: ManagedVendor, provider: str):
    vendor.work = Work(becomes=managed.ODD, polls=1)
    done = agent(sqlite_url, vendor, provider, "--timeout", "2s", "--grace", "1s")
    assert done.returncode in (124, 76), done.stderr
    assert "pondering" in nightlatch(sqlite_url, "show", one(sqlite_url, "article")["run"]).stdout


@pytest.mark.parametrize("provider", PROVIDERS)
def test_polls_with_faults_are_tried_again(sqlite_url: str, vendor: ManagedVendor, provider: str):
    faults = iter([managed.REFUSED, managed.OVERLOADED, managed.DROPPED])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "poll" else ""
    vendor.hidden = 1.0  # a 404 proves nothing
    vendor.work = Work(polls=1)
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 0, done.stderr
    assert sum(vendor.launches().values()) == 1


@pytest.mark.parametrize("provider", ["anthropic", "command"])
def test_a_lost_reply_to_the_launch_is_found_again(sqlite_url: str, vendor: ManagedVendor, provider: str):
    faults = iter([managed.LOST])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "launch" else ""
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 0, done.stderr
    assert list(vendor.launches().values()) == [1]


@pytest.mark.parametrize("provider", ["google", "openai"])
def test_where_nothing_can_find_it_the_launch_is_in_doubt_and_goes_on_when_it_is_attached(
    sqlite_url: str, vendor: ManagedVendor, provider: str
):
    faults = iter([managed.LOST])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "launch" else ""
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 76, done.stderr
    assert agent(sqlite_url, vendor, provider).returncode == 76
    (made,) = vendor.working()
    run = one(sqlite_url, "article")["run"]
    attached = nightlatch(sqlite_url, "agent", "attach", run, made.id)
    assert attached.returncode == 0, attached.stderr
    done = agent(sqlite_url, vendor, provider)
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    assert list(vendor.launches().values()) == [1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_launch_is_tried_again_only_by_the_runs_own_retries(
    sqlite_url: str, vendor: ManagedVendor, provider: str
):
    if provider == "command":
        pytest.skip("its commands say what a refusal is")
    vendor.fault = lambda verb, _: managed.REFUSED if verb in ("launch", "prepare") else ""
    done = agent(sqlite_url, vendor, provider, "--retries", "1", "--backoff", "100ms")
    assert done.returncode == 75, done.stderr
    assert len([one for one in vendor.seen if one[2] == 429]) == 2 and not vendor.working()


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
def test_a_vendor_that_cannot_be_reached_is_worth_another_try_and_no_traceback(sqlite_url: str, provider: str):
    with ManagedVendor() as gone:
        pass
    done = agent(sqlite_url, gone, provider)
    assert done.returncode == 75 and "nothing was launched: 127.0.0.1 cannot be reached" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert one(sqlite_url, "article")["status"] == "failed"


def test_a_driver_that_hangs_is_replaced_by_its_supervisor(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(polls=0, cancel_takes=2.0)
    neighbour = begin(sqlite_url, vendor, "google", job="neighbour")
    running = begin(sqlite_url, vendor, "google", "--grace", "1s")
    until(lambda: len([a for a in vendor.working() if a.polls]) == 2)
    (warden,) = children(running.pid)
    (driver,) = children(warden)
    os.kill(driver, signal.SIGSTOP)
    faults = iter([managed.OVERLOADED, managed.OVERLOADED])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "cancel" else ""
    run = one(sqlite_url, "article")["run"]
    assert nightlatch(sqlite_url, "cancel", run).returncode == 0
    _, err = running.communicate(timeout=60)
    assert running.returncode == 120, err
    assert len(vendor.at_work()) == 1 and len(vendor.verb("cancel")) >= 3
    neighbour.send_signal(signal.SIGINT)
    neighbour.communicate(timeout=60)
    assert not vendor.at_work()


def test_an_end_that_the_vendor_does_not_confirm_needs_a_person(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(polls=0, cancels=False)
    running = begin(sqlite_url, vendor, "openai", "--grace", "1s")
    until(lambda: any(a.polls for a in vendor.working()))
    assert nightlatch(sqlite_url, "cancel", one(sqlite_url, "article")["run"]).returncode == 0
    _, err = running.communicate(timeout=60)
    assert running.returncode == 76, err
    (made,) = vendor.at_work()
    run = one(sqlite_url, "article")
    assert run["status"] == "needs-attention" and made.id in run["reason"]
    listed = nightlatch(sqlite_url, "agent", "list")
    assert f"nightlatch agent cancel {made.id}" in listed.stdout
    made.work = Work(polls=0)
    ended = nightlatch(sqlite_url, "agent", "cancel", made.id, env=vendor.environment())
    assert ended.returncode == 0 and not vendor.at_work(), ended.stderr
    assert nightlatch(sqlite_url, "agent", "list").stdout == "no agents are known to be working\n"
