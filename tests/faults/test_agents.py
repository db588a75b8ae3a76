"""Kill -9, lost replies and lists that lag: the work of a key begins once, or is in doubt; never twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.support.agents import PROVIDERS, agent, begin
from tests.support.programs import alive, children, kill_all, nightlatch, until
from tests.support.runs import listed
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "3"))  # the long form: 200
AT_ONCE = 8
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
def test_the_work_of_a_key_begins_once_or_is_in_doubt(sqlite_url: str, provider: str):
    """Courses side by side, each a job with its own vendor: most of a round is waiting."""
    rounds, outcomes, failures = iter(range(ROUNDS)), Counter[int](), list[BaseException]()

    def course(job: str) -> None:
        with ManagedVendor() as vendor:
            for number in rounds:
                dice = random.Random(f"{SEED}/{provider}/{number}")
                about = f"seed {SEED}, round {number}"
                try:
                    outcomes[_round(sqlite_url, vendor, provider, dice, job, f"k{number}", about)] += 1
                except BaseException as failure:  # noqa: BLE001 - the test raises it
                    failures.append(failure)
                    return

    courses = [threading.Thread(target=course, args=(f"job{number}",)) for number in range(min(ROUNDS, AT_ONCE))]
    for one in courses:
        one.start()
    for one in courses:
        one.join()
    print(f"{provider}, seed {SEED}: {outcomes[0]} succeeded, {outcomes[76]} in doubt, {len(failures)} failed")
    assert not failures, failures
    assert sum(outcomes.values()) == ROUNDS


def _round(url: str, vendor: ManagedVendor, provider: str, dice: random.Random, job: str, key: str, about: str) -> int:
    vendor.agents.clear()
    vendor.work = Work(polls=dice.choice((1, 4)), tokens=0, usd=0.0)
    vendor.lag, vendor.fault = dice.choice((0.0, 1.0, 5.0)), _faults(dice)
    more = ("--set", "deadline=2s", "--retries", "2", "--backoff", "50ms")
    for _ in range(dice.randint(1, 2)):
        running = begin(url, vendor, provider, *more, job=job, key=key)
        if dice.random() < 0.6:  # between the launch and its record
            until(lambda running=running: vendor.working() or running.poll() is not None)  # type: ignore[misc]
            time.sleep(dice.choice((0.0, 0.0, 0.02, 0.1)))
        else:
            time.sleep(dice.uniform(0.0, 1.0))
        end_by_kill(running, dice.choice(("driver", "supervisor", "both")))
        running.communicate(timeout=90)
    give_up = time.monotonic() + 60
    while (done := agent(url, vendor, provider, *more, job=job, key=key)).returncode not in (0, 76):
        # 75: until its deadline, a launch that was begun counts as being made.
        assert time.monotonic() < give_up, f"{about}: {done.stderr}"
    assert all(count == 1 for count in vendor.launches().values()), f"{about}: {vendor.launches()}"
    # On a slow machine the launch may pass its deadline: then the agent is ended for real, and only then there is another.
    for before, after in pairwise(vendor.working()):
        assert before.look() == managed.CANCELLED, f"{about}: {before}"
        assert before.cancelled_at <= after.at, f"{about}: {before} worked on when {after} was launched"
    if done.returncode == 0:
        assert vendor.working()[-1].look() == managed.DONE, about
    return done.returncode


def _faults(dice: random.Random) -> Callable[[str, str], str]:
    at_launch = dice.choice((managed.LOST, managed.SLOW, managed.SLOW, ""))
    lock = threading.Lock()

    def fault(verb: str, _: str) -> str:
        nonlocal at_launch
        with lock:
            if verb == "launch" and at_launch:
                found, at_launch = at_launch, ""
                return found
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
