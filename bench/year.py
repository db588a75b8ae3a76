"""A year of 200 jobs, at two sizes in each database: what `observe` and `pages` measure, made once for both.

It is written straight into the tables (a hundredth of the time that the verbs would take): runs with one usage report
and six journal entries each, the tally, the jobs' rows, and one run of 100,000 entries. `YEAR_RUNS` sets another size
than 1,000,000, `YEAR_ON=sqlite` or `YEAR_ON=postgres` one database.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache

import psycopg
from tests.support.servers.postgres import PostgresServer

from nightlatch.core.row import Row
from nightlatch.core.units import Amounts
from nightlatch.ledger import open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.opening import new_id
from nightlatch.ledger.records import RUN, RunRow
from nightlatch.ledger.tally import KEY
from nightlatch.store import url
from nightlatch.system import identity
from nightlatch.web.made_up import MadeUp

SMALL, LARGE, JOBS, BUSY = 10_000, int(os.environ.get("YEAR_RUNS", "1000000")), 200, 4
YEAR = 365 * 86400
_STATUSES = ["succeeded"] * 96 + ["failed", "timed-out", "stalled", "cancelled"]
LATELY = 2000  # runs of the last day
ENTRIES, LONG = 6, 100_000  # journal entries of a run, and of the longest


@cache
def stores() -> dict[str, list[str]]:
    """By database: the URLs of the small one and of the large one. They go when this process ends."""
    wanted, found = os.environ.get("YEAR_ON", "sqlite postgres"), {}
    if "sqlite" in wanted:
        folder = tempfile.mkdtemp(prefix="nightlatch-bench-")
        atexit.register(shutil.rmtree, folder)
        found["SQLite"] = [f"sqlite:///{folder}/{size}/nightlatch.db" for size in (SMALL, LARGE)]
    if "postgres" in wanted:
        server = PostgresServer()
        atexit.register(server.remove)
        found["PostgreSQL"] = [server.url(f"bench_{size}") for size in (SMALL, LARGE)]
    for name, urls in found.items():
        for size, where in zip((SMALL, LARGE), urls, strict=True):
            began = time.perf_counter()
            _fill(where, size)
            print(f"  {name}: {size:,} runs written in {time.perf_counter() - began:.0f}s", flush=True)
    return found


def _fill(where: str, size: int) -> None:
    """A year; and of the newest run of each of a few jobs the journal that the pages show."""
    store, ledger = url.connect(where), open_for(where)
    _year(ledger, size)
    ledger._tables.database.write(
        ledger._tables.sql("UPDATE {prefix}run SET cancel = 'ann' WHERE status = 'cancelled'")
    )
    columns = ["chain", "seq", "at", "kind", "body", "hash"]
    now = round(time.time() * 1000)
    _write_more(ledger, size, now - 86_400_000 * 30)
    due = time.time() + 3600
    rows = [Row(job=f"job{n:03d}", slot=due - 86400, next_due=due, schedule="0 2 * * *\nUTC") for n in range(JOBS)]
    store.advance([row.move(identity.new_id()) for row in rows])
    made = MadeUp(where, time.time())
    for job in ("job007", "job150"):
        made.ran(job, time.time(), 60.0, usd=1.0, model="large")
    long = made.open("long", time.time(), "./long.sh")
    writer = made.seal(long, time.time())
    begin = writer.run.seq
    rest = ((long.id, begin + 1 + n, now + n, "usage", "model=large\nusd=0.01", "") for n in range(LONG))
    _insert(ledger, "journal", columns, rest)
    ledger._tables.database.write(
        ledger._tables.sql(f"UPDATE {{prefix}}run SET seq = {begin + LONG} WHERE id = '{long.id}'")
    )
    _vacuum(ledger)


def _write_more(ledger: Ledger, size: int, at: int) -> None:
    """The rest of the journal, five entries for each of `size` chains, written by the database itself."""
    spread = f"(n * 2654435761) % {1 << 40}"  # every number once, in no order: as ids of runs are
    if ledger.many_machines:
        source = f"generate_series(1, {size}) AS n, generate_series(1, {ENTRIES - 1}) AS seq"
        chain, counted = f"lpad(to_hex({spread}), 12, '0')", ""
    else:
        source, chain = "numbers, seqs", f"printf('%012x', {spread})"
        counted = (
            f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {size}), "
            f"seqs(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM seqs WHERE seq < {ENTRIES - 1})"
        )
    _execute(
        ledger,
        f"{counted} INSERT INTO {{prefix}}journal (chain, seq, at, kind, body, hash) "
        f"SELECT {chain}, seq, {at}, 'usage', '', '' FROM {source}",
    )


def _vacuum(ledger: Ledger) -> None:
    """As autovacuum does, which would work beside the measurement otherwise; SQLite is left without statistics, as it
    is in use."""
    if ledger.many_machines:
        with psycopg.connect(ledger.address.partition("?")[0], autocommit=True) as server:
            server.execute("VACUUM ANALYZE")


def _year(ledger: Ledger, size: int) -> None:
    """The same last day and the same year of tally at every size: runs go with retention, the tally stays."""
    list(ledger.history.runs())
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
    ledger.outbox.reader.begin()


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
    copying = f"COPY {schema}.{table} ({names}) FROM STDIN"
    with psycopg.connect(address) as server, server.cursor() as cursor, cursor.copy(copying) as copy:
        for row in rows:
            copy.write_row(row)


def _execute(ledger: Ledger, sql: str) -> None:
    """A statement that may take minutes."""
    if not ledger.many_machines:
        with closing(sqlite3.connect(ledger.address)) as connection, connection:
            connection.execute(sql.format(prefix=""))
        return
    address, _, schema = ledger.address.partition("?schema=")
    with psycopg.connect(address) as server:
        server.execute(sql.format(prefix=f"{schema}."))
