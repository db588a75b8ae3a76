"""The check of a day's cap, as every report of usage makes it: with a thousand rows of usage, and with a million."""

from __future__ import annotations

import statistics
import tempfile
import time

from tests.support.servers.postgres import PostgresServer

from nightlatch import ledger
from nightlatch.core.units import Amounts
from nightlatch.ledger import kinds
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import USED, Used
from nightlatch.system import identity

FEW, MANY, ROUNDS, CHECKS = 1_000, 1_000_000, 7, 200
RUNS = 100  # that the rows belong to, all of today
GOAL = 2.0


def run() -> None:
    print(f"\nA day's cap is checked, with {FEW:,} and with {MANY:,} rows of usage (goal: at most {GOAL:g} x)")
    with tempfile.TemporaryDirectory() as folder:
        _compare("SQLite", *(_filled(ledger.open_for(f"sqlite:///{folder}/{rows}.db"), rows) for rows in (FEW, MANY)))
    server = PostgresServer()
    try:
        _compare("PostgreSQL", *(_filled(ledger.open_for(server.url(f"caps_{rows}")), rows) for rows in (FEW, MANY)))
    finally:
        server.remove()


def _filled(book: Ledger, rows: int) -> Ledger:
    """A hundred runs of one job have ended, each with its share of the rows."""
    for number in range(RUNS):
        opened = book.open_run("job", str(number))
        writer = book.seal(opened.id, token=number + 1, grant=identity.new_id(), holder=identity.holder(pid=0))
        at, reported = time.time(), Amounts(usd=0.001, calls=1)
        reports = [
            USED.row(Used(run=opened.id, seq=seq, job="job", at=at, amounts=reported, attempt=1))
            for seq in range(10, 10 + rows // RUNS)
        ]
        writer.record(kinds.ITEMS_MOVED, [(USED, reports)], done="a")
        writer.usage(calls=1)
        writer.finish("succeeded")
    assert book.period_usage.of_job("job", "calls", "day") == rows + RUNS
    return book


def _compare(name: str, few: Ledger, many: Ledger) -> None:
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(ROUNDS):
        for book, times in zip((few, many), taken, strict=True):
            started = time.perf_counter()
            for _ in range(CHECKS):
                book.period_usage.of_job("job", "usd", "day")
            times.append((time.perf_counter() - started) / CHECKS)
    one, other = map(statistics.median, taken)
    print(f"  {name:12} {one * 1e6:7.0f} us   {other * 1e6:7.0f} us   {other / one:5.2f} x")
