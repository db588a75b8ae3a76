"""The SQL gate against holders that are stopped, killed, late, or from another time, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import GateUnreachable, InDoubt, StaleToken
from nightlatch.gates import sql_postgres, sql_sqlite
from nightlatch.system import filelock, identity, process
from tests.support import programs, sql_target
from tests.support.marks import mark
from tests.support.servers.postgres_proxy import Proxy
from tests.support.sql_target import Target
from tests.support.stopped import go_on, sealed_after_a_look, until_stopped

ROOT = Path(__file__).parents[2]


def writer(started: list[subprocess.Popen[str]], target: Target, its: Mark, content: str, point: str) -> Any:
    argv = [target.url, its.store, its.name, str(its.token), its.grant, content, point]
    program = [sys.executable, "-m", "tests.support.processes.sql_writer", *argv]
    started.append(subprocess.Popen(program, text=True, cwd=ROOT, stdin=subprocess.PIPE, process_group=0))
    return started[-1]


POINTS = [("sqlite", "inside"), ("sqlite", "written")] + [
    ("postgres", point) for point in ("inside", "written", "copy", "fetch")
]


@pytest.mark.parametrize(("kind", "point"), POINTS)
def test_a_holder_stopped_inside_its_transaction_neither_blocks_the_seal_nor_writes_after_it(
    kind, point, request, writers, monkeypatch
):
    target = request.getfixturevalue(f"{kind}_target")
    if point in ("copy", "fetch"):
        monkeypatch.setattr(sql_postgres, "GRACE", 0.3)  # the others wait as long as a user would
    gate = target.gate()
    gate.seal(mark(1), "old")
    target.write(mark(1), "before")
    old = writer(writers, target, mark(1), "old", point)
    until_stopped(old.pid)
    gate.seal(mark(2), "new")
    seen = target.read()
    # On SQLite it was ended by its recorded identity; on PostgreSQL its session was, and it finds out why.
    assert go_on(old) == (-signal.SIGKILL if target.sqlite else 73)
    assert target.read() == seen == ["before"]
    target.write(mark(2), "new")
    assert target.read() == ["new"]


def test_a_holder_that_is_slow_in_a_transaction_of_sqlite_is_waited_for_and_not_ended(sqlite_target, tmp_path, writers):
    gate = sqlite_target.gate()
    gate.seal(mark(1), "old")
    old = writer(writers, sqlite_target, mark(1), "old", "slow")
    lock = filelock.FairLock(f"{tmp_path}/site.db-nightlatch.lock")
    programs.until(lambda: lock.holder() == (old.pid, process.start_of(old.pid)))
    sealed_after_a_look(lambda: gate.seal(mark(2), "new"), old)
    assert sqlite_target.read() == ["old"]


def test_a_writer_of_sqlite_that_does_not_come_through_the_gate_is_named_when_it_blocks_the_seal(
    sqlite_target, monkeypatch
):
    monkeypatch.setattr(sql_sqlite, "PATIENCE", 0.2)
    with closing(sqlite_target.connect()) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(GateUnreachable, match="does not use the gate"):
            sqlite_target.gate().seal(mark(1), "new")


def test_without_the_lock_file_a_seal_of_sqlite_still_cannot_pass_a_transaction(sqlite_target, tmp_path, monkeypatch):
    """Somebody tidied up beside the database. Then nobody can be named, but the database's own lock holds."""
    monkeypatch.setattr(sql_sqlite, "PATIENCE", 0.2)
    gate = sqlite_target.gate()
    gate.seal(mark(1), "old")
    with closing(sqlite_target.connect()) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with closing(sqlite_target.connect()) as connection, gate.transaction(connection, mark(1)):
        (tmp_path / "site.db-nightlatch.lock").unlink()
        with pytest.raises(GateUnreachable):
            sqlite_target.gate().seal(mark(2), "new")
        sql_target.replace(connection, mark(1), "old")
    assert sqlite_target.gate().standing()["job"].mark == mark(1)


def test_only_the_session_that_holds_the_fence_is_ended(postgres_target):
    """A reader, a writer of another table and a holder of another lease live on."""
    gate = postgres_target.gate()
    other = Mark(store=mark(1).store, name="other", token=1, grant="o")
    gate.seal(mark(1), "old")
    gate.seal(other, "other")
    with (
        closing(postgres_target.connect()) as reader,
        closing(postgres_target.connect()) as others,
        closing(postgres_target.connect()) as old,
    ):
        reader.execute("SELECT * FROM article")

        def overtaken() -> None:
            with gate.transaction(old, mark(1)):
                others.execute("INSERT INTO entry VALUES (1, 1)")
                postgres_target.gate().seal(mark(2), "new")
                old.execute("INSERT INTO article VALUES ('old', 1)")

        with gate.transaction(others, other), pytest.raises(StaleToken):
            overtaken()
        assert old.closed
        assert reader.execute("SELECT count(*) FROM entry").fetchone() == (1,)


def test_who_locks_the_table_of_the_marks_for_another_reason_is_not_ended(postgres_target, monkeypatch):
    monkeypatch.setattr(sql_postgres, "PATIENCE", 0.5)
    monkeypatch.setattr(sql_postgres, "GRACE", 0.1)
    gate = postgres_target.gate()
    gate.seal(mark(1), "old")
    with closing(postgres_target.connect()) as admin:
        admin.execute("LOCK TABLE nightlatch_gates.mark IN EXCLUSIVE MODE")
        with pytest.raises(GateUnreachable, match="pg_locks"):
            gate.seal(mark(2), "new")
        admin.execute("SELECT 1")


def test_a_holder_may_raise_its_own_token_beside_its_own_transaction_without_being_ended(postgres_target, monkeypatch):
    monkeypatch.setattr(sql_postgres, "PATIENCE", 0.5)
    monkeypatch.setattr(sql_postgres, "GRACE", 0.1)
    gate = postgres_target.gate()
    gate.seal(mark(1, grant="mine"), "me")
    with closing(postgres_target.connect()) as connection, gate.transaction(connection, mark(1, grant="mine")):
        with pytest.raises(GateUnreachable):
            postgres_target.gate().seal(mark(2, grant="mine"), "me")
        connection.execute("INSERT INTO article VALUES ('mine', 1)")
    assert postgres_target.read() == ["mine"]


def test_a_role_that_may_not_end_the_old_session_is_told_which_one_it_is(postgres_target, monkeypatch):
    monkeypatch.setattr(sql_postgres, "PATIENCE", 1.0)
    monkeypatch.setattr(sql_postgres, "GRACE", 0.1)
    gate = postgres_target.gate()
    gate.seal(mark(1), "old")
    with closing(postgres_target.connect()) as admin:
        role = f"sealer_{identity.new_id()}"
        admin.execute(f"CREATE ROLE {role} LOGIN")
        admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA nightlatch_gates TO {role}")
        admin.commit()
        weak = gates.Sql.from_url(postgres_target.url.replace("postgres@", f"{role}@"))
        with gate.transaction(admin, mark(1)):
            with pytest.raises(GateUnreachable, match=f"session {admin.info.backend_pid} of postgres"):
                weak.seal(mark(2), "new")
            admin.execute("INSERT INTO article VALUES ('old', 1)")
        admin.execute(f"DROP OWNED BY {role}")
        admin.execute(f"DROP ROLE {role}")
        admin.commit()
    assert postgres_target.read() == ["old"]


def test_a_transaction_with_a_timeout_is_ended_by_the_server_alone(postgres_target):
    gate = gates.Sql("articles", postgres_target.url.partition("#")[0], timeout="2s")
    gate.seal(mark(1), "old")

    def overrun(connection: Any) -> None:
        with gate.transaction(connection, mark(1)):
            programs.until(lambda: _ended(connection))
            connection.execute("INSERT INTO article VALUES ('late', 1)")

    with closing(postgres_target.connect()) as connection, pytest.raises(psycopg.errors.TransactionTimeout):
        overrun(connection)
    assert postgres_target.read() == []


def _ended(connection: Any) -> bool:
    with psycopg.connect(connection.info.dsn) as other:
        query = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        return other.execute(query, (connection.info.backend_pid,)).fetchone() == (0,)


def test_kills_at_random_points_leave_nothing_torn_stale_or_lost(target):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    killed = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.sql_killing", target.url, "100", str(seed)],
        text=True, capture_output=True, timeout=170, cwd=ROOT,
    )  # fmt: skip
    assert not killed.returncode, killed.stderr
    found = json.loads(killed.stdout)
    assert {**found, "writes": 0} == {"torn": 0, "behind": 0, "lost": 0, "stale": 0, "kills": 100, "writes": 0}, found
    assert found["writes"] > 20, "too few writes for a kill to hit one"


def test_with_no_seal_an_acknowledged_update_is_lost_and_with_it_the_late_one_is_refused(target):
    """Both add 1 to a number. The new holder reads, the old one writes, the new one writes what it has read + 1."""

    def trial(old: Mark, new: Mark, sealing: bool) -> tuple[int, int]:
        """(updates that were acknowledged, what the number has become)"""
        target.write(old, "0")
        acknowledged = 0
        if sealing:
            target.gate().seal(new, "new")
        read = int(target.read()[0])
        try:
            target.write(old, "1")
            acknowledged += 1
        except StaleToken:
            pass
        target.write(new, str(read + 1))
        return acknowledged + 1, int(target.read()[0])

    assert trial(mark(1), mark(2), sealing=False) == (2, 1), "two were acknowledged, one is there"
    assert trial(mark(3), mark(4), sealing=True) == (1, 1)


def test_a_reply_to_the_commit_that_is_lost_is_settled_by_asking_the_server(postgres, postgres_target):
    gate = postgres_target.gate()
    gate.seal(mark(1), "me")
    with Proxy(postgres.port) as proxy, closing(_through(proxy, postgres_target)) as connection:
        with gate.transaction(connection, mark(1)):
            sql_target.replace(connection, mark(1), "landed")
            proxy.lose_replies = 1
        assert connection.closed
    assert postgres_target.read() == ["landed"]


def test_a_commit_that_never_arrived_is_reported_as_not_done(postgres, postgres_target):
    gate = postgres_target.gate()
    gate.seal(mark(1), "me")

    def cut(proxy: Proxy, connection: Any) -> None:
        with gate.transaction(connection, mark(1)):
            sql_target.replace(connection, mark(1), "lost")
            for each in proxy._sockets:
                proxy._cut(each)

    with (
        Proxy(postgres.port) as proxy,
        closing(_through(proxy, postgres_target)) as connection,
        pytest.raises(GateUnreachable, match="not committed"),
    ):
        cut(proxy, connection)
    assert postgres_target.read() == []


def test_a_commit_whose_reply_is_lost_and_that_nobody_can_be_asked_about_is_in_doubt(postgres, postgres_target):
    with Proxy(postgres.port) as proxy, closing(_through(proxy, postgres_target)) as connection:
        with Proxy(postgres.port) as gone:
            gate = gates.Sql.from_url(postgres_target.url.replace(str(postgres.port), str(gone.port)))
            gate.seal(mark(1), "me")
            transaction = gate.transaction(connection, mark(1))
            transaction.__enter__()
            sql_target.replace(connection, mark(1), "landed")
        proxy.lose_replies = 1
        with pytest.raises(InDoubt, match="look before you repeat it"):
            transaction.__exit__(None, None, None)
    assert postgres_target.read() == ["landed"]


def _through(proxy: Proxy, target: Target) -> psycopg.Connection[Any]:
    url = target.url.partition("#")[0]
    return psycopg.connect(url.replace(str(conninfo_to_dict(url)["port"]), str(proxy.port)))
