"""Kill -9, lost replies and lists that lag: the work of a key begins once, or is in doubt; never twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.agents import PROVIDERS, agent, begin
from tests.support.programs import alive, children, kill_all, nightlatch, until
from tests.support.runs import listed
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "2"))
SEED = int(os.environ.get("NIGHTLATCH_SEED", str(random.randrange(10**6))))


@pytest.fixture
def vendor() -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        yield made


def tree(pid: int) -> list[int]:
    """Supervisor, warden, driver: as many as there are."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def end_by_kill(running: subprocess.Popen[str], whom: str) -> None:
    """`whom`: the driver, the supervisor, or both and all that is between them."""
    pids = tree(running.pid)
    chosen = {"driver": pids[2:3], "supervisor": pids[:1], "both": pids}[whom]
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in chosen:
            if alive(pid):
                os.kill(pid, signum)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.timeout(max(180, 40 * ROUNDS))
def test_the_work_of_a_key_begins_once_or_is_in_doubt(sqlite_url: str, vendor: ManagedVendor, provider: str):
    for number in range(ROUNDS):
        dice = random.Random(f"{SEED}/{provider}/{number}")
        _round(sqlite_url, vendor, provider, dice, f"k{number}", f"seed {SEED}, round {number}")


def _round(url: str, vendor: ManagedVendor, provider: str, dice: random.Random, key: str, about: str) -> None:
    vendor.agents.clear()
    vendor.work, vendor.lag = Work(polls=dice.choice((1, 4))), dice.choice((0.0, 1.0, 3.0))
    vendor.fault = _faults(dice)
    more = ("--set", "deadline=2s", "--retries", "2", "--backoff", "50ms")
    outcome = 1
    for _ in range(dice.randint(1, 2)):
        running = begin(url, vendor, provider, *more, key=key)
        moment = dice.choice(("launch", "later"))
        if moment == "launch":  # between the launch and its record
            until(lambda running=running: vendor.working() or running.poll() is not None)  # type: ignore[misc]
        time.sleep(dice.uniform(0.0, 0.8))
        end_by_kill(running, dice.choice(("driver", "supervisor", "both")))
        running.wait(timeout=90)
    for _ in range(6):
        done = agent(url, vendor, provider, *more, key=key)
        outcome = done.returncode
        if outcome in (0, 76):
            break
    assert outcome in (0, 76), f"{about}: {done.stderr}"
    assert all(count == 1 for count in vendor.launches().values()), f"{about}: {vendor.launches()}"
    assert len(vendor.working()) <= 1, f"{about}: {[(a.id, a.look()) for a in vendor.working()]}"
    if outcome == 0:
        assert len(vendor.working()) == 1, about


def _faults(dice: random.Random):
    lost = dice.random() < 0.3
    lock = threading.Lock()

    def fault(verb: str, _: str) -> str:
        nonlocal lost
        with lock:
            if verb == "launch" and lost:
                lost = False
                return managed.LOST
        return dice.choice((managed.OVERLOADED, managed.DROPPED)) if verb == "poll" and dice.random() < 0.1 else ""

    return fault


def test_after_a_takeover_the_successor_reattaches_and_the_thawed_first_cancels_nothing(
    sqlite_url: str, vendor: ManagedVendor
):
    vendor.work = Work(polls=0, usd=0.01)
    ttl = ("--ttl", "4s", "--wait", "60s")
    first = begin(sqlite_url, vendor, "anthropic", *ttl)
    until(lambda: any(a.polls >= 2 for a in vendor.working()))
    pids = tree(first.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    second = begin(sqlite_url, vendor, "anthropic", *ttl)
    (made,) = vendor.working()
    polls = made.polls
    until(lambda: made.polls > polls)  # by the second
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
    assert first.wait(timeout=60) in (123, -9, 137)
    assert made.look() == managed.RUNNING and not made.cancels
    made.work = Work(polls=1, usd=0.01)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert list(vendor.launches().values()) == [1]
    (run,) = listed(sqlite_url)
    assert run["status"] == "succeeded" and run["usage"]["usd"] == pytest.approx(made.polls * 0.01)
    assert nightlatch(sqlite_url, "audit", "verify").returncode == 0


def test_after_kill_9_of_everything_the_next_start_reattaches(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(polls=0)
    first = begin(sqlite_url, vendor, "google")
    until(lambda: any(a.polls for a in vendor.working()))
    kill_all(sqlite_url)
    first.wait()
    (made,) = vendor.working()
    assert f"agent cancel {made.id}" in nightlatch(sqlite_url, env={"COLUMNS": "200"}).stdout
    listed_agents = nightlatch(sqlite_url, "agent", "list").stdout
    assert f"nightlatch agent cancel {made.id}" in listed_agents  # at work, and nobody watches it
    made.work = Work(polls=1)
    done = agent(sqlite_url, vendor, "google")
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    assert len(vendor.working()) == 1


def test_a_shutdown_leaves_the_agent_to_the_next_start(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(polls=0)
    first = begin(sqlite_url, vendor, "openai")
    until(lambda: any(a.polls for a in vendor.working()))
    first.send_signal(signal.SIGTERM)
    first.wait(timeout=30)
    (made,) = vendor.working()
    assert made.look() == managed.RUNNING and not made.cancels
    made.work = Work(polls=1)
    assert agent(sqlite_url, vendor, "openai").returncode == 0
    assert len(vendor.working()) == 1
