"""Agents on every store; and on two machines that share only a git remote: one launch, whichever machine looks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import words
from tests.support.git_remote import Remote
from tests.support.programs import kill_all, nightlatch, start, until
from tests.support.runs import one
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work


@pytest.fixture
def vendor() -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        yield made


class Machine:
    """A state folder, and so a ledger, of its own."""

    def __init__(self, remote: Remote, vendor: ManagedVendor, folder: Path) -> None:
        self.url, self._vendor, self.mark = remote.store_url, vendor, f"machine={folder}"
        self.env = vendor.environment() | {"XDG_STATE_HOME": str(folder), "MACHINE": self.mark}

    def __call__(self, *line: str) -> subprocess.CompletedProcess[str]:
        return nightlatch(self.url, *line, env=self.env)

    def agent(self, provider: str, *more: str) -> subprocess.CompletedProcess[str]:
        return self(*words(provider, *more))

    def dies_at_work(self, provider: str) -> managed.Agent:
        """Everything of this machine is killed while its agent works."""
        running = start(self.url, *words(provider), env=self.env)
        until(lambda: any(a.polls for a in self._vendor.working()) or running.poll() is not None)
        kill_all(self.mark)
        running.communicate()
        (made,) = self._vendor.working()
        return made


@pytest.fixture
def machines(file_remote: Remote, vendor: ManagedVendor, tmp_path: Path) -> tuple[Machine, Machine]:
    return Machine(file_remote, vendor, tmp_path / "a"), Machine(file_remote, vendor, tmp_path / "b")


@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_a_second_machine_goes_on_with_the_agent_of_one_that_died(
    machines: tuple[Machine, Machine], vendor: ManagedVendor, provider: str
):
    vendor.work = Work(polls=0)
    first, second = machines
    made = first.dies_at_work(provider)
    made.work = Work(polls=1)
    done = second.agent(provider)
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    assert list(vendor.launches().values()) == [1]
    assert first("agent", "list").stdout == "no agents are known to be working\n"
    assert "its key is done" in first.agent(provider).stderr


def test_a_launch_in_doubt_is_seen_by_the_second_machine_and_decided_there(
    machines: tuple[Machine, Machine], vendor: ManagedVendor
):
    faults = iter([managed.LOST])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "launch" else ""
    first, second = machines
    assert first.agent("openai").returncode == 76
    doubted = second.agent("openai")
    assert doubted.returncode == 76, doubted.stderr
    (made,) = vendor.working()
    run = json.loads(second("runs", "--json").stdout.splitlines()[0])["run"]
    attached = second("agent", "attach", run, made.id)
    assert attached.returncode == 0, attached.stderr
    done = second.agent("openai")
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    assert "its key is done" in first.agent("openai").stderr
    assert list(vendor.launches().values()) == [1]


def test_an_agent_that_failed_on_one_machine_is_launched_anew_on_the_other(
    machines: tuple[Machine, Machine], vendor: ManagedVendor
):
    vendor.work = Work(becomes=managed.FAILED)
    first, second = machines
    assert first.agent("google").returncode == 1
    vendor.work = Work()
    assert second.agent("google").returncode == 0
    assert sorted(vendor.launches().values()) == [1, 1]


def test_an_agent_on_postgresql(postgres_url: str, vendor: ManagedVendor):
    """Watched, cancelled at its timeout, in doubt and attached, and shown."""
    env = vendor.environment()
    done = nightlatch(postgres_url, *words("anthropic", "--budget", "usd=1,usd/day=5", key="well"), env=env)
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    vendor.work = Work(polls=0)
    late = nightlatch(postgres_url, *words("google", "--timeout", "3s", key="late"), env=env)
    assert late.returncode == 124 and not vendor.at_work(), late.stderr
    vendor.work, faults = Work(), iter([managed.LOST])
    vendor.fault = lambda verb, _: next(faults, "") if verb == "launch" else ""
    assert nightlatch(postgres_url, *words("openai", job="doubt"), env=env).returncode == 76
    run, made = one(postgres_url, "doubt")["run"], vendor.working()[-1]
    assert nightlatch(postgres_url, "agent", "attach", run, made.id).returncode == 0
    assert nightlatch(postgres_url, *words("openai", job="doubt"), env=env).returncode == 0
    assert set(vendor.launches().values()) == {1}
    listed = nightlatch(postgres_url, "agent", "list", "--all", "--json").stdout.splitlines()
    assert {json.loads(line)["status"] for line in listed} == {"succeeded", "cancelled"}
    assert nightlatch(postgres_url, "audit", "verify").returncode == 0
