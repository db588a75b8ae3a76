"""I5: whatever happens, the vendor never charged more than the cap, and usd ≤ charged ≤ usd + doubt.

Each round is 32 clients on one cap, in four dialects, JSON and SSE. NIGHTLATCH_ROUNDS makes more of them.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.budgets import gateways, spent
from tests.support.programs import nightlatch, start, until
from tests.support.vendor import Plan, Received, Vendor
from tests.support.vendor.plan import FAULTS

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "2"))
CLIENTS = str(Path(__file__).parents[1] / "support" / "vendor" / "clients.py")
FIRST = int(os.environ.get("NIGHTLATCH_SEED", "1"))


def plans(seed: int, faults: float):
    dice = random.Random(f"vendor/{seed}")

    def plan(call: Received) -> Plan:
        fault = dice.choice(FAULTS) if dice.random() < faults else ""
        return Plan(
            output=dice.choice((10, 50, 400, 3000)), delay=dice.choice((0.0, 0.0, 0.02, 0.2)), fault=fault,
            chunks=dice.choice((1, 3, 10)), pause=dice.choice((0.0, 0.0, 0.01)), reasoning=5,
        )  # fmt: skip

    return plan


def words(cap: float, seed: int, *, faults: bool) -> list[str]:
    return [
        "run", "night", "--key", str(seed), "--budget", f"usd={cap}", "--lost", "again", "--ttl", "5s", "--",
        sys.executable, CLIENTS, str(seed), "32", "400", str(int(faults)),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_without_faults_they_are_equal_to_the_billionth_and_the_cap_is_usable(sqlite_url, seed):
    cap = random.Random(seed).choice((0.8, 1.1, 1.5))
    with Vendor(plan=plans(seed, 0.0)) as vendor:
        done = nightlatch(sqlite_url, *words(cap, seed, faults=False), env=vendor.environment)
        found = spent(sqlite_url, "night")
        assert found.usd == vendor.charged, (done.stdout, done.stderr)
        assert (found.doubt, found.held) == (0, 0)
        assert 0.9 * cap * 10**9 <= vendor.charged <= cap * 10**9, (done.stdout, done.stderr)
        assert found.calls == len(vendor.calls)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_with_faults_and_kills_the_cap_holds(sqlite_url, seed):
    dice = random.Random(f"kill/{seed}")
    cap = dice.choice((0.3, 0.6, 1.1))
    with Vendor(plan=plans(seed, 0.15)) as vendor:
        victim = dice.choice(("gateway", "supervisor", "both", "nobody"))
        running = start(sqlite_url, *words(cap, seed, faults=True), env=vendor.environment)
        until(lambda: len(vendor.calls) > dice.randrange(40) or running.poll() is not None)
        time.sleep(dice.random() * 0.5)
        there = gateways(running.pid)
        for pid in [
            *(there if victim in ("gateway", "both") else []),
            *([running.pid] if victim in ("supervisor", "both") else []),
        ]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        out, err = running.communicate(timeout=120)
        assert vendor.charged <= cap * 10**9, (victim, out, err)
        if victim in ("supervisor", "both"):  # its successor goes on with what is left
            until(lambda: not vendor.open)
            again = nightlatch(sqlite_url, *words(cap, seed, faults=True), env=vendor.environment)
            err += again.stderr
        until(lambda: not vendor.open)
        found = spent(sqlite_url, "night")
        charged = vendor.charged
        assert charged <= cap * 10**9, (victim, found, out, err)
        assert found.usd <= charged <= found.usd + found.doubt, (victim, found, charged, out, err)
        assert found.usd + found.doubt <= round(cap * 10**9)
        assert found.held == 0
