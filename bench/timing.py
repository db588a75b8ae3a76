"""Measuring whole commands and loops, in turns, so that a busy moment hits all contestants alike."""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def precompile() -> None:
    """Compile the source first: where bytecode files are not written, every start would include compiling."""
    compileall.compile_dir(SOURCE, quiet=2)


def command(argv: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def in_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Median seconds of each, all measured round by round."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            taken[name].append(measure())
    return {name: statistics.median(times) for name, times in taken.items()}


def loop(action: Callable[[], object], seconds: float) -> float:
    """Seconds a call, over many calls."""
    action()
    calls, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        action()
        calls += 1
    return (time.perf_counter() - started) / calls


def environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(("NIGHTLATCH_", "PYTHONDONT"))}


def show(title: str, rows: dict[str, float], against: str, unit: float = 1000.0) -> None:
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<46} {value * unit:9.3f} ms   {value / rows[against]:6.2f} ×")
