"""The SQL gate on a PostgreSQL that crashes: what became of a transaction is not asked by a number that comes back."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import psycopg
import pytest

from nightlatch.errors import GateUnreachable, InDoubt
from nightlatch.gates import sql_postgres_transaction
from nightlatch.gates.sql_postgres_settle import settle
from tests.support import sql_target
from tests.support.marks import mark
from tests.support.programs import alive, until
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres_proxy import Proxy
from tests.support.sql_target import Target


@pytest.fixture(scope="module")
def crashing() -> Iterator[PostgresServer]:
    """One that writes nothing of a transaction to its log before the COMMIT: so a crash forgets its number."""
    server = PostgresServer("wal_writer_delay=10s", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off")
    yield server
    server.remove()


def crash(server: PostgresServer, session: psycopg.Connection[Any]) -> None:
    """Kill another session: the server ends all, and goes on without having been started again."""
    with closing(psycopg.connect(session.info.dsn)) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
    until(lambda: not alive(session.info.backend_pid))
    until(lambda: _answers(session.info.dsn))


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def number(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row
    return int(row[0])


@pytest.mark.parametrize("stranger", ["committed", "in progress"])
def test_a_transaction_lost_in_a_crash_is_not_taken_for_a_strangers_that_has_its_number(crashing, stranger):
    crashing.psql(f"CREATE SCHEMA {stranger.replace(' ', '_')}")
    query = f"options=-csearch_path%3D{stranger.replace(' ', '_')}"
    target = Target(f"postgresql://postgres@127.0.0.1:{crashing.port}/postgres?{query}#crash")
    gate = target.gate()
    gate.seal(mark(1), "me")
    started = crashing.psql("SELECT pg_postmaster_start_time()")
    others: list[Any] = []

    def lost(connection: Any) -> None:
        with gate.transaction(connection, mark(1)):
            sql_target.replace(connection, mark(1), "lost")
            mine = number(connection)
            crash(crashing, connection)
            while True:
                others.append(target.connect())
                its = number(others[-1])
                assert its <= mine, "the crash forgot no number"
                if its == mine:
                    break
                others[-1].commit()
            if stranger == "committed":
                others[-1].commit()

    with closing(target.connect()) as connection, pytest.raises(GateUnreachable, match="not committed"):
        lost(connection)
    assert target.read() == []
    assert others[-1].execute("SELECT 'alive'").fetchone() == ("alive",)
    assert crashing.psql("SELECT pg_postmaster_start_time()") == started, "it was started again: no crash in place"
    for each in others:
        each.close()


def test_a_commit_that_may_still_be_on_its_way_is_decided_by_ending_its_session(postgres_target):
    """The server has not noticed that its client is gone, and could still be handed the COMMIT."""
    gate = postgres_target.gate()
    gate.seal(mark(1), "me")

    def cut(connection: Any) -> None:
        with gate.transaction(connection, mark(1)):
            sql_target.replace(connection, mark(1), "lost")
            dead, other = socket.socketpair()
            other.close()
            os.dup2(dead.fileno(), connection.fileno())
            dead.close()

    connection = postgres_target.connect()
    session, kept = connection.info.backend_pid, os.dup(connection.fileno())
    try:
        with closing(connection), pytest.raises(GateUnreachable, match="not committed"):
            cut(connection)
        assert not alive(session)
    finally:
        os.close(kept)
    assert postgres_target.read() == []


@pytest.mark.parametrize("seals", [1, 2])
def test_a_lost_commit_is_never_reported_as_not_done_because_its_trace_was_cleared_away(
    postgres, postgres_target, monkeypatch, seals
):
    """The next holder leaves the traces of the one before it; the one after that clears them away."""
    gate = postgres_target.gate()
    gate.seal(mark(1), "me")

    def later(*arguments: Any) -> bool | None:
        for token in range(2, seals + 2):
            postgres_target.gate().seal(mark(token), "newer")
        return settle(*arguments)

    def lose(proxy: Proxy, connection: Any) -> None:
        with gate.transaction(connection, mark(1)):
            sql_target.replace(connection, mark(1), "landed")
            proxy.lose_replies = 1

    monkeypatch.setattr(sql_postgres_transaction, "settle", later)
    url = postgres_target.url.partition("#")[0]
    with (
        Proxy(postgres.port) as proxy,
        closing(psycopg.connect(url.replace(str(postgres.port), str(proxy.port)))) as connection,
        nullcontext() if seals == 1 else pytest.raises(InDoubt, match="look before you repeat it"),
    ):
        lose(proxy, connection)
    assert postgres_target.read() == ["landed"]


def test_gated_transactions_leave_one_trace_however_many_they_are(postgres, postgres_target):
    for _ in range(3):
        postgres_target.write(mark(1), "x")
    count = f"SELECT count(*) FROM nightlatch_gates.passage WHERE gate = '{postgres_target.gate().name}'"
    assert postgres.psql(count) == "1"
