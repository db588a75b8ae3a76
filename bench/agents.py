"""A run whose work goes on at a vendor: how soon it is launched, and what it costs to wait for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

from tests.support.agents import words
from tests.support.programs import NIGHTLATCH, until
from tests.support.vendor.managed import ManagedVendor, Work

from . import timing
from .supervisor import _children, _memory, _used

_REST = float(os.environ.get("NIGHTLATCH_REST", "60"))  # seconds of watching a run that waits
_AT_ONCE = 50


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder, ManagedVendor() as vendor:
        env = timing.environment() | vendor.environment() | {"NIGHTLATCH_STORE": f"sqlite:///{folder}/store.db"}
        vendor.work = Work(polls=0)
        contestants = {
            "python -c pass": partial(timing.command, [sys.executable, "-c", "pass"], env),
            "agent run, to its launch request": partial(_launched, vendor, env),
        }
        timing.in_turns(contestants, 1)
        timing.show("Launching an agent (goal: at most 6 ×)", timing.in_turns(contestants, 10), "python -c pass")
        _at_rest(vendor, env)
        _at_once(vendor, env)


def _start(env: dict[str, str], name: str) -> subprocess.Popen[bytes]:
    line = [*NIGHTLATCH, *words("openai", "--timeout", "10m", job=name, key=name, every="30s")]
    return subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)


def _launched(vendor: ManagedVendor, env: dict[str, str]) -> float:
    before, started = len(vendor.agents), time.monotonic()
    running = _start(env, f"job-{before}")
    until(lambda: any(one.polls for one in list(vendor.agents.values())[before:]))
    taken = list(vendor.agents.values())[before].at - started  # when the request was there, not when we saw it
    running.send_signal(2)
    running.wait()
    return taken


def _at_rest(vendor: ManagedVendor, env: dict[str, str]) -> None:
    before = len(vendor.agents)
    running = _start(env, "rest")
    until(lambda: any(one.polls > 2 for one in list(vendor.agents.values())[before:]))
    (warden,) = _children(running.pid)
    (driver,) = _children(warden)
    pids = {"supervisor": running.pid, "warden": warden, "driver": driver}
    used = {name: _used(pid) for name, pid in pids.items()}
    time.sleep(_REST)
    print(f"\nA run that waits for its agent, for {_REST:.0f} s (goal: 70 MB together, 0.3 % of a CPU)")
    rows = {name: (*_memory(pid), _used(pid) - used[name]) for name, pid in pids.items()}
    rows["together"] = tuple(map(sum, zip(*rows.values(), strict=True)))  # type: ignore[assignment]
    for name, (rss, pss, seconds) in rows.items():
        print(f"  {name:<12} RSS {rss / 1000:6.1f} MB   PSS {pss / 1000:6.1f} MB   CPU {seconds / _REST * 100:6.3f} %")
    running.send_signal(2)
    running.wait()


def _at_once(vendor: ManagedVendor, env: dict[str, str]) -> None:
    """All are launched and polled, and all end."""
    vendor.agents.clear()
    vendor.work = Work(polls=2)
    started = time.perf_counter()
    running = [_start(env, f"many-{number}") for number in range(_AT_ONCE)]
    well = sum(process.wait() == 0 for process in running)
    print(f"\n{_AT_ONCE} agents at once: {well} succeeded in {time.perf_counter() - started:.1f} s, "
          f"{len(vendor.working())} launches")  # fmt: skip
