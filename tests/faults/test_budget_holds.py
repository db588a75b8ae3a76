"""I5: whatever happens, the vendor never charged more than the cap, and usd ≤ charged ≤ usd + doubt.

Each round is 32 clients on one cap, in four dialects, JSON and SSE, at random prices. NIGHTLATCH_ROUNDS makes more of
them, from NIGHTLATCH_SEED on. The clients are in the process of the test, since starting them takes longer than what
they do; the command of the run hands its addresses over and waits for them.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from subprocess import Popen
from threading import Thread

import pytest

from tests.support.budgets import gateways, spent
from tests.support.programs import start, until
from tests.support.vendor import Plan, Received, Vendor
from tests.support.vendor.clients import MODELS, call_all
from tests.support.vendor.plan import FAULTS
from tests.support.vendor.tariff import Rates

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "2"))
FIRST = int(os.environ.get("NIGHTLATCH_SEED", "1"))
# Hands its environment over, and ends when the clients have ended.
COMMAND = 'env > "$0/making"; mv "$0/making" "$0/env"; until [ -e "$0/over" ]; do sleep 0.05; done; rm "$0/over"'


def plans(seed: int, faults: float):
    dice = random.Random(f"vendor/{seed}")

    def plan(call: Received) -> Plan:
        fault = dice.choice(FAULTS) if dice.random() < faults else ""
        return Plan(
            output=dice.choice((10, 50, 400, 3000)), delay=dice.choice((0.0, 0.0, 0.02, 0.2)), fault=fault,
            chunks=dice.choice((1, 3, 10)), pause=dice.choice((0.0, 0.0, 0.01)), reasoning=5,
        )  # fmt: skip

    return plan


@contextmanager
def vendor_of(seed: int, folder: Path, *, faults: float) -> Iterator[tuple[Vendor, dict[str, str]]]:
    """A vendor whose prices are made up, each model its own; and the environment of a run that knows them."""
    dice = random.Random(f"prices/{seed}")
    rates = {
        model: [Fraction(dice.randrange(50, most), 1000) for most in (15_000, 60_000)]
        for models in MODELS.values() for model in models
    }  # fmt: skip
    config = folder / "nightlatch.toml"
    lines = [
        f'"{model}" = {{ input = {float(read)}, output = {float(made)} }}' for model, (read, made) in rates.items()
    ]
    config.write_text("\n".join(["[prices]", *lines, ""]))
    priced = {model: Rates(read, made, read, read) for model, (read, made) in rates.items()}

    def cost(vendor, model, counts):
        return priced[model](vendor, model, counts)

    with Vendor(plan=plans(seed, faults), cost=cost) as vendor:
        yield vendor, {**vendor.environment, "NIGHTLATCH_CONFIG": str(config)}


class Calling:
    """The clients of one run, beside the test. `counts`: what came of their calls."""

    def __init__(self, env: Mapping[str, str], seed: int, *, leaves: bool) -> None:
        self.counts: Counter[str] = Counter()

        def go() -> None:
            self.counts = asyncio.run(call_all(env, seed, 32, 400, leaves=leaves))

        self._thread = Thread(target=go)
        self._thread.start()

    def over(self) -> bool:
        return not self._thread.is_alive()


def begin(url: str, folder: Path, seed: int, cap: float, env: dict[str, str]) -> tuple[Popen[str], dict[str, str]]:
    """The run, and its command's environment once that is at work."""
    handed = folder / "env"
    handed.unlink(missing_ok=True)
    running = start(url, "run", "night", "--key", str(seed), "--budget", f"usd={cap}", "--lost", "again", "--ttl", "30s",
                    "--wait", "1m", "--", "sh", "-c", COMMAND, str(folder), env=env)  # fmt: skip
    until(lambda: handed.exists() or running.poll() is not None)
    if not handed.exists():
        return running, {}
    return running, dict(line.split("=", 1) for line in handed.read_text().splitlines() if "=" in line)


def finish(running: Popen[str], folder: Path, calling: Calling) -> tuple[str, str]:
    until(calling.over, timeout=300)
    (folder / "over").touch()
    return running.communicate(timeout=300)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_without_faults_they_are_equal_to_the_billionth_and_the_cap_is_usable(sqlite_url, tmp_path, seed):
    cap = random.Random(seed).choice((1.2, 1.6, 2.2))
    with vendor_of(seed, tmp_path, faults=0.0) as (vendor, env):
        running, handed = begin(sqlite_url, tmp_path, seed, cap, env)
        calling = Calling(handed, seed, leaves=False)
        _, err = finish(running, tmp_path, calling)
        found = spent(sqlite_url, "night")
        assert found.usd == vendor.charged, (calling.counts, err)
        assert (found.doubt, found.held) == (0, 0)
        assert 0.9 * cap * 10**9 <= vendor.charged <= cap * 10**9, (calling.counts, err)
        assert found.calls == len(vendor.calls)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_with_faults_and_kills_the_cap_holds(sqlite_url, tmp_path, seed):
    dice = random.Random(f"kill/{seed}")
    cap = dice.choice((0.3, 0.6, 1.1))
    with vendor_of(seed, tmp_path, faults=0.15) as (vendor, env):
        victim = dice.choice(("gateway", "supervisor", "both", "nobody"))
        running, handed = begin(sqlite_url, tmp_path, seed, cap, env)
        calling, many = Calling(handed, seed, leaves=True), dice.randrange(40)
        until(lambda: len(vendor.calls) > many or calling.over())
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
        _, err = finish(running, tmp_path, calling)
        assert vendor.charged <= cap * 10**9, (victim, calling.counts, err)
        if victim in ("supervisor", "both"):  # its successor goes on with what is left
            until(lambda: not vendor.open)
            (tmp_path / "over").unlink(missing_ok=True)
            running, handed = begin(sqlite_url, tmp_path, seed, cap, env)
            if handed:
                calling = Calling(handed, seed + 10**6, leaves=True)
            err += finish(running, tmp_path, calling)[1]
        until(lambda: not vendor.open)
        found = spent(sqlite_url, "night")
        charged = vendor.charged
        assert charged <= cap * 10**9, (victim, found, calling.counts, err)
        assert found.usd <= charged <= found.usd + found.doubt, (victim, found, charged, calling.counts, err)
        assert found.usd + found.doubt <= round(cap * 10**9)
        assert found.held == 0, (victim, found, calling.counts, err)
