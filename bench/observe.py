"""What people ask of the ledger, at 1,000,000 runs against 10,000: each question may take at most twice as long.

The runs are those of `year`, which says how to set another size.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from nightlatch.ledger import kinds
from nightlatch.observe import usage_report
from nightlatch.observe.night_rows import parts
from nightlatch.observe.nightly import night
from nightlatch.observe.overview import overview
from nightlatch.observe.reader import StoreReader

from .year import JOBS, stores

GOAL, GOAL_SCREEN = 2.0, 1.5


def run() -> None:
    for name, urls in stores().items():
        readers = [StoreReader(where) for where in urls]
        for question, goal, asked in questions():
            small, large = (_median(reader, asked) for reader in readers)
            ratio = large / max(small, 0.0005)  # shorter times are noise
            times = f"{small * 1000:8.1f} ms {large * 1000:8.1f} ms  {ratio:5.2f}x"
            verdict = "ok" if ratio <= goal else "MISSED"
            print(f"  {name:<10} {question:<34} {times}  goal {goal}  {verdict}", flush=True)


def questions() -> Iterator[tuple[str, float, Callable[[StoreReader], object]]]:
    """The table of what observing takes."""
    now = time.time()

    def day(days: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(now - days * 86400))

    yield "used by a job today", GOAL, lambda r: r.ledger.period_usage.of_job("job007", "usd", "day")
    yield "newest run of a job", GOAL, lambda r: r.ledger.newest("job007")
    yield "last 50 runs of a rare job", GOAL, lambda r: list(r.ledger.history.runs(job="job150", limit=50))
    yield (
        "stalled runs of a rare job",
        GOAL,
        lambda r: list(r.ledger.history.runs(job="job150", status="stalled", limit=50)),
    )
    yield "runs of a job that is not there", GOAL, lambda r: list(r.ledger.history.runs(job="nothing", limit=50))
    yield (
        "failed, last 30 days, 50 of them",
        GOAL,
        lambda r: list(r.ledger.history.runs(status="failed", since=now - 30 * 86400, limit=50)),
    )
    jobs = [f"job{n:03d}" for n in range(JOBS)]
    yield "last 60 runs of 200 jobs", GOAL, lambda r: r.ledger.history.newest_outcomes_of(jobs)
    yield "used by day and job, 30 d", GOAL, lambda r: r.ledger.history.usd_by("day", "job", since=day(30))
    yield "used by day and job, 365 d", GOAL, lambda r: r.ledger.history.usd_by("day", "job", since=day(365))
    yield "newest refusals", GOAL, lambda r: r.ledger.journal.rare_entries(kinds.REFUSED, most=50)
    yield (
        "a job's rare entries",
        GOAL,
        lambda r: r.ledger.journal.rare_entries(job="job001", since=now - 86400),
    )
    yield "chains with news for a reader", GOAL, lambda r: r.ledger.outbox.reader.news()
    yield "usage --by day,job --since 30d", GOAL, lambda r: usage_report.report(r, ("day", "job"), since=day(30))
    yield "usage --by day,job --since 365d", GOAL, lambda r: usage_report.report(r, ("day", "job"), since=day(365))
    yield "usage --by day --since 365d", GOAL, lambda r: usage_report.report(r, ("day",), since=day(365))
    yield "bare nightlatch", GOAL_SCREEN, _screen


def _screen(reader: StoreReader) -> object:
    since = time.time() - 3600
    seen = overview(reader, since)
    return night(reader, seen), parts(reader, seen, {"needs you": 15, "running": 10, "waiting": 5, "done": 10})


def _median(reader: StoreReader, asked: Callable[[StoreReader], object], rounds: int = 5) -> float:
    asked(reader)
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        asked(reader)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
