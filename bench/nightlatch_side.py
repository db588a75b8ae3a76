"""Nightlatch's side of `bench.dbos`: jobs whose children leave, in the file $TOOK, the seconds from the beginning of
the work to its end, start-up and the first few left out."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nightlatch
from nightlatch.runtime.child.context import Run

WARM = 16


def work(number: int) -> int:
    return number


def warm() -> Run:
    """The run, when all that a step needs is imported."""
    run = nightlatch.current()
    for number in range(WARM):
        run.step(f"warm-{number}", work, number)
    return run


def took(started: float) -> None:
    Path(os.environ["TOOK"]).write_text(str(time.perf_counter() - started))


@nightlatch.job(key="{key}", timeout="10m")
def steps(key: str, count: int) -> None:
    run, started = warm(), time.perf_counter()
    for number in range(count):
        run.step(f"step-{number}", work, number)
    took(started)


@nightlatch.job(key="{key}", timeout="10m")
def mapped(key: str, count: int) -> None:
    run, started = warm(), time.perf_counter()
    run.map(work, range(count), concurrency=8)
    took(started)


def message(number: int) -> int:
    return int(nightlatch.current().step("one", work, number))


def warm_inside(key: str) -> nightlatch.Run:
    run = nightlatch.current()
    for number in range(WARM):
        run.handle(f"{key}-warm-{number}", message, number)
    return run


@nightlatch.job(key="{key}", timeout="10m")
def runs(key: str, count: int) -> None:
    run, started = warm_inside(key), time.perf_counter()
    for number in range(count):
        run.handle(f"{key}-{number}", message, number)
    took(started)


@nightlatch.job(key="{key}", timeout="10m")
def runs_beside(key: str, count: int) -> None:
    run, started = warm_inside(key), time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: run.handle(f"{key}-{number}", message, number), range(count)))
    took(started)


@nightlatch.job(key="{key}", timeout="10m")
def resumed(key: str, count: int) -> None:
    """Stopped ten steps before its end the first time."""
    run, started = nightlatch.current(), time.perf_counter()
    for number in range(count):
        if run.attempt == 1 and number == count - 10:
            os._exit(9)
        run.step(f"step-{number}", work, number)
    took(started)
