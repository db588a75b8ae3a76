"""What people ask of the ledger, at 1,000,000 runs against 10,000: each question may take at most twice as long.

The generator writes a year of 200 jobs straight into the tables (a hundredth of the time that the verbs would take),
with one usage report a run, its journal in short, and the tally. `OBSERVE_RUNS` sets another size.
"""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import psycopg
from tests.support.servers.postgres import PostgresServer

from nightlatch.core.units import Amounts
from nightlatch.ledger import kinds, open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.opening import new_id
from nightlatch.ledger.records import RUN, RunRow
from nightlatch.ledger.tally import KEY
from nightlatch.observe import usage_report
from nightlatch.observe.night_rows import parts
from nightlatch.observe.nightly import night
from nightlatch.observe.overview import overview
from nightlatch.observe.reader import StoreReader
from nightlatch.store import url

SMALL, LARGE, JOBS, BUSY = 10_000, int(os.environ.get("OBSERVE_RUNS", "1000000")), 200, 4
YEAR, GOAL, GOAL_SCREEN = 365 * 86400, 2.0, 1.5
_STATUSES = ["succeeded"] * 96 + ["failed", "timed-out", "stalled", "cancelled"]
LATELY = 2000  # runs of the last day


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        compare("SQLite", [f"sqlite:///{folder}/{size}/nightlatch.db" for size in (SMALL, LARGE)])
    server = PostgresServer()
    try:
        compare("PostgreSQL", [server.url(f"bench_observe_{size}") for size in (SMALL, LARGE)])
    finally:
        server.remove()


def compare(name: str, urls: list[str]) -> None:
    readers = []
    for size, where in zip((SMALL, LARGE), urls, strict=True):
        began = time.perf_counter()
        url.connect(where).read("nothing")
        fill(open_for(where), size)
        readers.append(StoreReader(where))
        print(f"  {name}: {size:,} runs written in {time.perf_counter() - began:.0f}s")
    for question, goal, asked in questions():
        small, large = (_median(reader, asked) for reader in readers)
        ratio = large / max(small, 0.0005)  # below half a millisecond is no time
        times = f"{small * 1000:8.1f} ms {large * 1000:8.1f} ms  {ratio:5.2f}x"
        print(f"  {name:<10} {question:<34} {times}  goal {goal}  {'ok' if ratio <= goal else 'MISSED'}", flush=True)


def questions() -> Iterator[tuple[str, float, Callable[[StoreReader], object]]]:
    """The table of what observing takes."""
    now = time.time()

    def day(days: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(now - days * 86400))

    yield "used by a job today", GOAL, lambda r: r.ledger.used("job007", "usd", "day")
    yield "newest run of a job", GOAL, lambda r: r.ledger.newest("job007")
    yield "last 50 runs of a rare job", GOAL, lambda r: list(r.ledger.runs(job="job150", limit=50))
    yield "stalled runs of a rare job", GOAL, lambda r: list(r.ledger.runs(job="job150", status="stalled", limit=50))
    yield "runs of a job that is not there", GOAL, lambda r: list(r.ledger.runs(job="nothing", limit=50))
    yield (
        "failed, last 30 days, 50 of them",
        GOAL,
        lambda r: list(r.ledger.runs(status="failed", since=now - 30 * 86400, limit=50)),
    )
    yield "last 60 runs of 200 jobs", GOAL, lambda r: [r.ledger.history.strip(f"job{n:03d}") for n in range(JOBS)]
    yield "used by day and job, 30 d", GOAL, lambda r: r.ledger.history.usd_by("day", "job", since=day(30))
    yield "used by day and job, 365 d", GOAL, lambda r: r.ledger.history.usd_by("day", "job", since=day(365))
    yield "newest refusals", GOAL, lambda r: r.ledger.history.rare(kinds.REFUSED, most=50)
    yield "a job's rare entries since then", GOAL, lambda r: r.ledger.history.rare(job="job001", since=now - 86400)
    yield "chains with news for a reader", GOAL, lambda r: r.ledger.outbox.news()
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


def fill(ledger: Ledger, size: int) -> None:
    """The same last day and the same year of tally at every size: runs go with retention, the tally stays."""
    list(ledger.runs())
    rng, now, day = random.Random(1), time.time(), ledger._tables.day
    _insert(ledger, "run", list(RUN.columns), _runs(rng, now, size))
    rng = random.Random(2)
    used = ["run", "seq", "job", "at", "usd", "tokens", "calls", "units", "attempt", "model"]
    _insert(ledger, "usage", used, ((new_id(), 2, *row) for row in _usage(rng, now, size)))
    entry = ["chain", "seq", "at", "kind", "body", "hash"]
    _insert(ledger, "journal", entry, ((new_id(), 1, _ms(now, rng), "ended", "", "") for _ in range(size)))
    refusals = ((f"job:job{n % JOBS:03d}", n, _ms(now, rng), "refused", "", "") for n in range(500))
    _insert(ledger, "journal", entry, refusals)
    counts = ["attempts", "runs", "elapsed", "items", "usd", "tokens", "calls", "units"]
    days = [day(round((now - back * 86400) * 1000)) for back in range(365)]
    sums = (
        (f"job{n:03d}", one, "vm", "", "", "succeeded", 14, 14, 60_000, 0, 10**9, 14_000, 40, 0)
        for n in range(JOBS) for one in days
    )  # fmt: skip
    _insert(ledger, "tally", [*KEY, *counts], sums)
    _insert(ledger, "chain", ["name", "seq", "head"], ((f"job:job{n:03d}", 1000, "") for n in range(JOBS)))
    ledger.outbox.begin()


def _job(rng: random.Random) -> str:
    return f"job{rng.randrange(BUSY) if rng.random() < 0.4 else rng.randrange(JOBS):03d}"


def _ms(now: float, rng: random.Random, number: int = LATELY) -> int:
    """In the last day, or before that in the year."""
    return round((now - (rng.random() * 86400 if number < LATELY else 86400 + rng.random() * (YEAR - 86400))) * 1000)


def _runs(rng: random.Random, now: float, size: int) -> Iterator[tuple[object, ...]]:
    for number in range(size):
        at = _ms(now, rng, number) / 1000
        made = RunRow(
            id=new_id(), job=_job(rng), key=str(number), status=rng.choice(_STATUSES), attempt=1, token=number,
            created=at, changed=at, started=at, ended=at, elapsed=rng.random() * 60, host="vm",
            usage=Amounts(usd=rng.random()),
        )  # fmt: skip
        yield RUN.row(made)


def _usage(rng: random.Random, now: float, size: int) -> Iterator[tuple[object, ...]]:
    for number in range(size):
        yield _job(rng), _ms(now, rng, number), rng.randrange(10**9), 1000, 3, 0, 1, "large"


def _insert(ledger: Ledger, table: str, columns: list[str], rows: Iterable[tuple[object, ...]]) -> None:
    names, rows = ", ".join(columns), iter(rows)
    if not ledger.many_machines:
        with closing(sqlite3.connect(ledger.address)) as connection, connection:
            connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", rows)
        return
    address, _, schema = ledger.address.partition("?schema=")
    with psycopg.connect(address) as server, server.cursor() as cursor:
        with cursor.copy(f"COPY {schema}.{table} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(f"ANALYZE {schema}.{table}")


def execute(ledger: Ledger, sql: str) -> None:
    """A statement that may take minutes."""
    if not ledger.many_machines:
        with closing(sqlite3.connect(ledger.address)) as connection, connection:
            connection.execute(sql.format(prefix=""))
        return
    address, _, schema = ledger.address.partition("?schema=")
    with psycopg.connect(address) as server:
        server.execute(sql.format(prefix=f"{schema}."))
