"""Caps of a day and month on a git store: two machines (state folders), each with a ledger of its own, and one job."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from nightlatch.core import row as rows
from nightlatch.store.url import connect
from tests.e2e.test_gateway import TALK
from tests.support.budgets import gateways
from tests.support.programs import midday, nightlatch, start, until
from tests.support.vendor import Plan, Vendor

CAP = 0.3
ONE = 1000 * 20_000 + 8 * 4_000  # billionths that a call costs
UNTIL_REFUSED = TALK + "while call(max_tokens=1000)[0] == 200: pass"


def some(calls: int) -> str:
    return TALK + f"[call(max_tokens=1000) for _ in range({calls})]"


class Machine:
    def __init__(self, name: str, folder: Path, url: str, env: dict[str, str]) -> None:
        self.url, self.env = url, {**env, "XDG_STATE_HOME": str(folder / name)}

    def words(self, key: str, code: str, *options: str) -> list[str]:
        return ["run", "night", "--key", key, "--budget", f"usd/day={CAP}", "--ttl", "6s", "--lost", "again",
                "--wait", "60s", *options, "--", sys.executable, "-c", code]  # fmt: skip

    def run(self, key: str, code: str, *options: str):
        return nightlatch(self.url, *self.words(key, code, *options), env=self.env)


@pytest.fixture
def vendor():
    with Vendor(plan=lambda call: Plan(input=8, output=1000, delay=call.body.get("temperature", 0))) as vendor:
        yield vendor


@pytest.fixture
def machines(git_url, tmp_path, vendor):
    return [Machine(name, tmp_path, git_url, {**vendor.environment, **midday()}) for name in ("one", "two")]


def test_what_one_machine_used_the_other_cannot_use_again(machines, vendor):
    one, two = machines
    assert one.run("a", some(5)).returncode == 0
    assert vendor.charged == 5 * ONE
    (cursor,) = connect(one.url).cursors(["night"])
    (said,) = (rows.read(cursor).used or {}).values()
    assert said["used"]["day"]["usd"] == said["used"]["month"]["usd"] == 5 * ONE
    assert "open" not in said and len(json.dumps(said)) < 300
    assert two.run("b", UNTIL_REFUSED).returncode in (0, 121)
    assert 0.9 * CAP * 10**9 <= vendor.charged <= CAP * 10**9
    before = len(vendor.calls)
    refused = one.run("c", UNTIL_REFUSED)  # it knows at its start
    assert "budget usd/day=0.3 is spent" in refused.stderr and len(vendor.calls) == before, refused.stderr


def test_a_machine_that_dies_leaves_a_part_in_doubt_and_gives_it_back(machines, vendor):
    one, two = machines
    code = TALK + "call(max_tokens=1000); call(max_tokens=1000, temperature=60)"
    running = start(one.url, *one.words("a", code), env=one.env)
    until(lambda: len(vendor.calls) == 2)
    for pid in (*gateways(running.pid), running.pid):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=60)
    until(lambda: not vendor.open)
    lost = vendor.charged
    assert two.run("b", UNTIL_REFUSED).returncode in (0, 121)
    assert vendor.charged <= CAP * 10**9
    assert vendor.charged - lost >= 0.5 * CAP * 10**9  # most of it is usable without the dead machine
    # The first machine says what its ledger knows; what was only open is free again.
    again = one.run("a", TALK + "sys.exit(call(max_tokens=1000)[0] != 200)")
    assert again.returncode == 0, again.stderr
    assert vendor.charged <= CAP * 10**9


def test_reported_usage_counts_on_the_other_machine_too(machines):
    one, two = machines
    spend = ["--meter", "report"]
    tool = "import subprocess, sys; from tests.support.programs import NIGHTLATCH; subprocess.run([*NIGHTLATCH, 'spend', 'usd=0.4'])"
    one.env["PYTHONPATH"] = two.env["PYTHONPATH"] = str(Path(__file__).parents[2])
    one.run("a", tool, *spend)
    refused = two.run("b", "pass", *spend)
    assert refused.returncode == 121 and "usd/day=0.3 is spent" in refused.stderr


def test_check_says_what_is_counted_on_each_machine_alone(git_url, sqlite_url, tmp_path):
    config = tmp_path / "nightlatch.toml"
    config.write_text('budget = { "usd/day" = 20 }\n[jobs.night]\ncommand = ["true"]\nbudget = { "usd/day" = 5 }\n')
    found = nightlatch(git_url, "check", "--config", str(config))
    assert "budget usd/day=20 for all jobs together: counted on each machine separately" in found.stdout, found
    assert "on each machine separately" not in nightlatch(sqlite_url, "check", "--config", str(config)).stdout
