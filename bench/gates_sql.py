"""A gated transaction against the bare one, on PostgreSQL and on SQLite: one INSERT, committed.

In turns, so that a noisy moment hits all alike; medians. The bare one is the driver's own transaction.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from typing import Any

import psycopg
from tests.support.servers.postgres import PostgresServer

import nightlatch
from nightlatch import gates

from . import timing

ROUNDS = 1500


def _timed(action: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        started = time.perf_counter()
        action()
        return time.perf_counter() - started

    for _ in range(20):
        action()
    return measure


def _gated(gate: gates.Sql, lease: nightlatch.Lease, connection: Any, insert: str) -> Callable[[], None]:
    def action() -> None:
        with gate.transaction(connection, lease):
            connection.execute(insert)

    return action


def _lease(gate: gates.Sql) -> nightlatch.Lease:
    """Held to the end of this process; where it is kept makes no difference to the gate."""
    folder = tempfile.mkdtemp(prefix="nightlatch-bench-")
    atexit.register(shutil.rmtree, folder)
    return nightlatch.lease("writer", gates=[gate], store=f"sqlite:///{folder}/store.db").acquire()


def _postgres() -> None:
    server = PostgresServer(on_disk=True)  # a commit is a flush
    try:
        url = server.url().partition("?")[0]
        server.psql("CREATE TABLE bare (x int); CREATE TABLE guarded (x int)")
        gate = gates.Sql("bench", url)
        gate.install("guarded")
        lease = _lease(gate)
        one, two, three, four = (psycopg.connect(url, autocommit=True) for _ in range(4))

        def bare() -> None:
            with one.transaction():
                one.execute("INSERT INTO bare VALUES (1)")

        def by_hand() -> None:
            with four.transaction():
                four.execute(
                    "SELECT 1 FROM nightlatch_gates.mark WHERE gate = 'bench' AND lease = 'writer' FOR SHARE"
                ).fetchone()
                four.execute("INSERT INTO bare VALUES (1)")

        contestants = {
            "bare transaction": _timed(bare),
            "gated": _timed(_gated(gate, lease, two, "INSERT INTO bare VALUES (1)")),
            "gated, with triggers": _timed(_gated(gate, lease, three, "INSERT INTO guarded VALUES (1)")),
            "SELECT FOR SHARE by hand": _timed(by_hand),
        }
        rows = timing.in_turns(contestants, ROUNDS)
        timing.show("A transaction on PostgreSQL (goal: gated at most 1.3 ×)", rows, "bare transaction")
    finally:
        server.remove()


def _sqlite(journal: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/site.db"
        one, two, three = (sqlite3.connect(path, isolation_level=None) for _ in range(3))
        one.execute(f"PRAGMA journal_mode = {journal}")
        one.execute("CREATE TABLE bare (x)")
        one.execute("CREATE TABLE guarded (x)")
        gate = gates.Sql("bench", f"sqlite:///{path}")
        gate.install("guarded")
        lease = _lease(gate)

        def bare() -> None:
            one.execute("BEGIN IMMEDIATE")
            one.execute("INSERT INTO bare VALUES (1)")
            one.execute("COMMIT")

        contestants = {
            "bare transaction": _timed(bare),
            "gated": _timed(_gated(gate, lease, two, "INSERT INTO bare VALUES (1)")),
            "gated, with triggers": _timed(_gated(gate, lease, three, "INSERT INTO guarded VALUES (1)")),
        }
        rows = timing.in_turns(contestants, ROUNDS // 3)
        timing.show(f"A transaction on SQLite, journal_mode={journal}", rows, "bare transaction")
        for each in (one, two, three):
            each.close()


def run() -> None:
    _postgres()
    _sqlite("delete")
    _sqlite("wal")


if __name__ == "__main__":
    run()
