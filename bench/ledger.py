"""The ledger's verbs, each on the disk when it returns, against raw INSERTs into the same database.

A verb does more than an INSERT: it checks token, grant and head, advances the run's row and chains a
hash. Contestants take turns, so that a busy moment hits all; what counts is the ratio.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.servers.postgres import PostgresServer

from nightlatch import ledger
from nightlatch.ledger import kinds
from nightlatch.ledger.writer import Verb
from nightlatch.system import identity
from nightlatch.system.filelock import FairLock

WRITERS, SECONDS, ROUNDS = 8, 1.0, 5
GOAL = 0.6

_TABLE = """CREATE TABLE IF NOT EXISTS raw_journal (chain TEXT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL,
kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (chain, seq))"""
_HASH = "0123456789abcdef" * 4

Action = Callable[[], object]


def raw_sqlite(where: str) -> Action:
    connection = sqlite3.connect(where, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE + " WITHOUT ROWID")
    return _inserting(lambda row: connection.execute("INSERT INTO raw_journal VALUES (?, ?, ?, ?, ?, ?)", row))


def raw_sqlite_in_turns(where: str) -> Action:
    """Behind the same queue as the verbs: SQLite's own busy handler gives nearly all turns to one process, and lets
    another wait for seconds."""
    insert, queue = raw_sqlite(where), FairLock(f"{where}.queue")

    def turn() -> None:
        assert queue.acquire(60)
        insert()
        queue.release()

    return turn


def raw_postgres(url: str) -> Action:
    """psycopg as it comes: it prepares the statement."""
    import psycopg

    connection = psycopg.connect(url.partition("?")[0], autocommit=True)
    sql = "INSERT INTO raw_journal VALUES (%s, %s, %s, %s, %s, %s)"
    return _inserting(lambda row: connection.execute(sql, row))


def _inserting(insert: Callable[[tuple[object, ...]], object]) -> Action:
    chain, seq = identity.new_id(), iter(range(10**9))
    return lambda: insert((chain, next(seq), int(time.time() * 1000), "progress", "done=3\ntotal=10", _HASH))


def verb(url: str) -> Action:
    book = ledger.open_for(url)
    run = book.open_run("bench", identity.new_id())
    writer = book.seal(run.id, token=1, grant=identity.new_id(), holder=identity.holder(pid=0))
    return lambda: writer.event(kinds.PROGRESS, done=3, total=10)


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        where = f"sqlite:///{folder}/nightlatch.db"
        _compare("SQLite", (raw_sqlite, f"{folder}/raw.db"), (verb, where))
        fair = [(_many(raw_sqlite_in_turns, f"{folder}/raw.db"), _many(verb, where)) for _ in range(ROUNDS)]
        _show(f"{WRITERS} processes, raw INSERTs taking turns too", fair)
        _audit("SQLite", f"sqlite:///{folder}/audit.db")
    with _postgres() as url:
        _compare("PostgreSQL", (raw_postgres, url), (verb, url))
        _audit("PostgreSQL", url.replace("schema=nightlatch", "schema=audit"))


def _compare(title: str, raw: tuple[Callable[[str], Action], str], ours: tuple[Callable[[str], Action], str]) -> None:
    print(f"\nLedger verbs on {title}, each durable (goal: at least {GOAL} of raw INSERTs)")
    _show("1 writer", [_by_turns(raw[0](raw[1]), ours[0](ours[1])) for _ in range(3)])
    many = [(_many(*raw), _many(*ours), _threads(*ours)) for _ in range(ROUNDS)]
    _show(f"{WRITERS} writers, threads of one run", [(raw_rate, threads) for raw_rate, _, threads in many])
    _show(f"{WRITERS} writers, a process and a run each", [(raw_rate, processes) for raw_rate, processes, _ in many])


def _show(what: str, rates: list[tuple[float, float]]) -> None:
    raw, ours = (statistics.median(column) for column in zip(*rates, strict=True))
    ratio = statistics.median(b / a for a, b in rates)
    print(f"  {what:<44} raw {raw:7.0f}/s   verbs {ours:7.0f}/s   {ratio:5.2f} ×")


def _by_turns(raw: Action, ours: Action, calls: int = 1500) -> tuple[float, float]:
    """Calls a second of both, by the median call; one call each in turn, so that a noisy neighbour hits both alike."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(calls):
        for action, times in ((raw, took[0]), (ours, took[1])):
            started = time.perf_counter()
            action()
            times.append(time.perf_counter() - started)
    return 1 / statistics.median(took[0]), 1 / statistics.median(took[1])


def _count(action: Action, until: float) -> int:
    calls = 0
    while time.perf_counter() < until:
        action()
        calls += 1
    return calls


def _threads(make: Callable[[str], Action], where: str) -> float:
    action, counts = make(where), []
    until = time.perf_counter() + SECONDS
    threads = [threading.Thread(target=lambda: counts.append(_count(action, until))) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def _many(make: Callable[[str], Action], where: str) -> float:
    """Calls that all of them made in one and the same second: writers that are kept waiting count with what they
    did in it, not with the rate they had once it was their turn."""
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(WRITERS), context.SimpleQueue()
    processes = [context.Process(target=_contend, args=(make, where, barrier, counts)) for _ in range(WRITERS)]
    for process in processes:
        process.start()
    total = sum(counts.get() for _ in processes)
    for process in processes:
        process.join()
    return float(total) / SECONDS


def _contend(make: Callable[[str], Action], where: str, barrier, counts) -> None:
    action = make(where)
    barrier.wait()
    counts.put(_count(action, time.perf_counter() + SECONDS))


def _audit(title: str, url: str, entries: int = 100_000) -> None:
    book = ledger.open_for(url)
    runs = 20
    for number in range(runs):
        run = book.open_run("bench", str(number))
        writer = book.seal(run.id, token=1, grant=identity.new_id(), holder=identity.holder(pid=0))
        for _ in range(entries // runs // 250):
            writer.take(*(Verb(kinds.EFFECT_OF_RUN, {"key": step, "reason": "x" * 60}) for step in range(250)))
        writer.finish("succeeded", exit_code=0, elapsed=1.0)
    started = time.perf_counter()
    verdict = book.journal.verify(book.journal.heads())
    took = time.perf_counter() - started
    assert not verdict.breaks and verdict.entries > entries
    print(f"  audit of {verdict.entries} entries on {title}: {took:.2f} s (goal: under 5 s)")


@contextmanager
def _postgres() -> Iterator[str]:
    server = PostgresServer(on_disk=True)
    try:
        server.psql(_TABLE)
        yield server.url()
    finally:
        server.remove()


if __name__ == "__main__":
    os.environ.pop("NIGHTLATCH_STORE", None)
    run()
