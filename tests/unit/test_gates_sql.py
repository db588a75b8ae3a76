"""The SQL gate as its user meets it: transactions, connections, URLs, triggers, the command line."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import GateUnreachable, StaleToken, UsageError
from nightlatch.gates import sql_postgres_address
from nightlatch.system import identity
from tests.programs import nightlatch as command
from tests.sql_target import Target

MARK = Mark(store="5" * 32, name="job", token=7, grant="a" * 32)
NEWER = Mark(store="5" * 32, name="job", token=8, grant="b" * 32)


@pytest.fixture
def sealed(target: Target) -> Target:
    target.gate().seal(MARK, "me")
    return target


def insert(target: Target, connection: Any, mark: Any = MARK, then: Callable[[], object] = lambda: None) -> None:
    with target.gate().transaction(connection, mark):
        connection.execute("INSERT INTO article VALUES ('x', 1)")
        then()


def test_with_a_lease_the_gate_is_registered_and_sealed_by_itself(target, sqlite_url):
    with nightlatch.lease("job", store=sqlite_url) as lease, closing(target.connect()) as connection:
        insert(target, connection, lease)
        assert target.gate().standing()["job"].mark == lease.mark
        record = lease.store.acquire("job", lease.grant, lease.holder, 60.0)
        assert record.gates == (target.gate().url,)


def test_without_a_url_the_gate_is_named_by_the_connection(target):
    gate = gates.Sql("found")
    with closing(target.connect()) as connection, gate.transaction(connection, MARK):
        connection.execute("INSERT INTO article VALUES ('x', 1)")
    again = gates.open(gate.url)
    assert isinstance(again, gates.Sql)
    assert again.standing()["job"].mark == MARK


def test_before_its_first_connection_a_gate_without_a_url_cannot_be_registered():
    with pytest.raises(UsageError, match="url="):
        gates.Sql("articles").url  # noqa: B018


def test_what_raises_inside_is_rolled_back_and_comes_out(sealed):
    with closing(sealed.connect()) as connection:
        with pytest.raises(KeyError):
            insert(sealed, connection, then=lambda: os.environ["MISSING"])
        insert(sealed, connection)
    assert sealed.read() == ["x"]


def test_a_refused_transaction_leaves_the_connection_usable(sealed):
    sealed.gate().seal(NEWER, "newer")
    with closing(sealed.connect()) as connection:
        with pytest.raises(StaleToken):
            insert(sealed, connection)
        insert(sealed, connection, NEWER)
    assert sealed.read() == ["x"]


def test_a_transaction_that_is_open_already_is_not_taken_over(sealed):
    with closing(sealed.connect()) as connection:
        connection.execute("INSERT INTO article VALUES ('mine', 1)")
        with pytest.raises(UsageError, match="already"):
            insert(sealed, connection)
        connection.rollback()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_block_that_ends_its_transaction_by_itself_is_told_so(sealed, end):
    with closing(sealed.connect()) as connection:
        with pytest.raises(UsageError, match="not fenced"):
            insert(sealed, connection, then=getattr(connection, end))
        insert(sealed, connection)


def test_an_error_that_the_block_has_swallowed_is_not_taken_for_success(postgres_target):
    def swallow() -> None:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/0")

    with closing(postgres_target.connect()) as connection:
        with pytest.raises(UsageError, match="undone"):
            insert(postgres_target, connection, then=swallow)
        insert(postgres_target, connection)
    assert postgres_target.read() == ["x"]


def test_a_connection_to_another_database_is_refused(target, postgres, tmp_path):
    """Else the seal would be raised in one database and the write land in another."""
    if target.sqlite:
        stranger: Any = sqlite3.connect(tmp_path / "other.db")
    else:
        name = f"other_{identity.new_id()}"
        postgres.psql(f"CREATE DATABASE {name}")
        stranger = psycopg.connect(f"postgresql://postgres@127.0.0.1:{postgres.port}/{name}")
    with closing(stranger):
        stranger.execute("CREATE TABLE article (body TEXT, token BIGINT)")
        stranger.commit()
        with pytest.raises(UsageError, match="not to the database"):
            insert(target, stranger)
        assert stranger.execute("SELECT count(*) FROM article").fetchone() == (0,)
    if not target.sqlite:
        postgres.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_connection_to_a_copy_of_the_database_is_refused_though_the_mark_stands_in_it(sqlite_target, tmp_path):
    sqlite_target.gate().seal(MARK, "me")
    shutil.copy(tmp_path / "site.db", tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy, pytest.raises(UsageError, match="not to the database"):
        insert(sqlite_target, copy)


def test_a_connection_of_another_kind_is_refused(sqlite_target, postgres_target):
    with closing(sqlite_target.connect()) as one, closing(postgres_target.connect()) as other:
        with pytest.raises(UsageError, match="psycopg 3"):
            insert(postgres_target, one)
        with pytest.raises(UsageError, match="sqlite3"):
            insert(sqlite_target, other)
    with pytest.raises(UsageError, match="in memory"):
        insert_anywhere(sqlite3.connect(":memory:"))


def insert_anywhere(connection: Any) -> None:
    with gates.Sql("x").transaction(connection, MARK):
        pass


@pytest.mark.parametrize("autocommit", [True, False])
def test_the_users_settings_of_a_psycopg_connection_are_kept(postgres_target, autocommit):
    connection = psycopg.connect(postgres_target.url.partition("#")[0], autocommit=autocommit, row_factory=dict_row)
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    with closing(connection):
        with postgres_target.gate().transaction(connection, MARK):
            row = connection.execute("SHOW transaction_isolation").fetchone()
            assert row == {"transaction_isolation": "serializable"}
            with connection.transaction():
                connection.execute("INSERT INTO article VALUES ('x', 1)")
        assert connection.autocommit is autocommit
        with pytest.raises(StaleToken), postgres_target.gate().transaction(connection, older()):
            pass
        assert connection.autocommit is autocommit
    assert postgres_target.read() == ["x"]


def older() -> Mark:
    return Mark(store="5" * 32, name="job", token=6, grant="c" * 32)


@pytest.mark.parametrize("isolation", [None, ""], ids=["autocommit", "implicit"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_any_sqlite_connection_will_do(sqlite_target, tmp_path, isolation, journal):
    connection = sqlite3.connect(tmp_path / "site.db", isolation_level=isolation)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA journal_mode = {journal}")
    with closing(connection):
        insert(sqlite_target, connection)
        insert(sqlite_target, connection)
    assert sqlite_target.read() == ["x", "x"]


def test_a_password_is_used_and_not_registered():
    url = "postgresql://app:s%40cret@db:5433/site?sslmode=require&password=again&schema=x"
    gate = gates.Sql("articles", url)
    assert gate.url == "postgresql://app@db:5433/site?sslmode=require#articles"


@pytest.mark.parametrize(
    ("parameters", "url"),
    [
        ({"host": "db", "port": "5433"}, "postgresql://app@db:5433/site"),
        ({"host": "/run/pg", "port": "5433"}, "postgresql://app@/site?host=/run/pg&port=5433"),
        ({"host": "a,b", "target_session_attrs": "any"}, "postgresql://app@/site?host=a,b&target_session_attrs=any"),
        ({"host": "::1", "application_name": "x"}, "postgresql://app@[::1]/site"),
    ],
)
def test_a_connection_says_where_its_database_is(parameters, url):
    assert sql_postgres_address.of_parameters(parameters, "app", "site") == url


def test_a_server_that_cannot_be_reached_is_69_and_a_password_is_asked_for_where_it_belongs(monkeypatch):
    gate = gates.Sql("articles", "postgresql://app@127.0.0.1:1/site")
    with pytest.raises(GateUnreachable, match=r"could not be sealed.*refused"):
        gate.seal(MARK, "me")


def test_a_missing_password_is_asked_for_where_it_belongs(postgres, sqlite_url, monkeypatch):
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    postgres.psql("CREATE ROLE app_with SUPERUSER LOGIN PASSWORD 's@cret'")
    rules.write_text("host all app_with 127.0.0.1/32 scram-sha-256\n" + before)
    postgres.psql("SELECT pg_reload_conf()")
    try:
        gate = gates.Sql("with", f"postgresql://app_with:s%40cret@127.0.0.1:{postgres.port}/postgres")
        for _ in range(2):  # the second time it is registered: still it is this object that is sealed
            with nightlatch.lease("job", gates=[gate], store=sqlite_url) as lease:
                assert gate.standing()["job"].mark == lease.mark
        with pytest.raises(GateUnreachable, match="PGPASSWORD"):
            nightlatch.lease("job", store=sqlite_url).acquire()
        monkeypatch.setenv("PGPASSWORD", "s@cret")
        nightlatch.lease("job", store=sqlite_url).acquire().release()
    finally:
        rules.write_text(before)
        postgres.psql("SELECT pg_reload_conf(); REASSIGN OWNED BY app_with TO postgres; DROP ROLE app_with")


@pytest.mark.parametrize("url", ["mysql://db/site", "sqlite://", "sqlite:///:memory:", "postgresql://[db/site"])
def test_a_url_of_no_database_is_a_usage_error(url):
    with pytest.raises(UsageError):
        gates.Sql("articles", url)


# Triggers


SQLITE = ["INSERT INTO article VALUES ('raw', 1)", "REPLACE INTO article VALUES ('raw', 1)",
          "UPDATE article SET token = 2", "DELETE FROM article"]  # fmt: skip
POSTGRES = ["INSERT INTO article VALUES ('raw', 1)", "UPDATE article SET token = 2 WHERE false", "DELETE FROM article",
            "TRUNCATE article", "COPY article FROM PROGRAM 'true'",
            "MERGE INTO article a USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE"]  # fmt: skip


def shell(path: Path, sql: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sqlite3", str(path), sql], text=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("sql", SQLITE)
def test_raw_sql_on_a_guarded_table_of_sqlite_fails_closed(sqlite_target, tmp_path, sql):
    gate = sqlite_target.gate()
    gate.install("ARTICLE")  # SQLite does not mind how a name is spelled
    with closing(sqlite_target.connect()) as ours:
        insert(sqlite_target, ours)
        plain = sqlite_target.connect()
        with closing(plain), pytest.raises(sqlite3.OperationalError, match="nightlatch_token"):
            plain.execute(sql)
        # A connection that was at the gate before, and is not inside now, has the function and no token.
        with pytest.raises(sqlite3.IntegrityError, match="behind the gate"):
            ours.execute(sql)
    if shutil.which("sqlite3"):
        refused = shell(tmp_path / "site.db", sql)
        assert refused.returncode and "nightlatch_token" in refused.stderr
    assert sqlite_target.read() == ["x"]


@pytest.mark.parametrize("sql", POSTGRES)
def test_raw_sql_on_a_guarded_table_of_postgresql_fails_closed(postgres, postgres_target, sql):
    gate = postgres_target.gate()
    gate.install("article")
    with closing(postgres_target.connect()) as ours:
        insert(postgres_target, ours)
        with pytest.raises(psycopg.Error, match="behind the gate") as refused:
            ours.execute(sql)
        assert refused.value.sqlstate == "NL073"
    with pytest.raises(AssertionError, match="behind the gate"):
        postgres.psql(f"SET search_path = {gate.name}; {sql}")
    assert postgres_target.read() == ["x"]


def test_psql_with_the_token_in_pgoptions_writes_until_it_is_overtaken(postgres, postgres_target, monkeypatch):
    gate = postgres_target.gate()
    gate.install("article")
    gate.seal(MARK, "me")
    monkeypatch.setenv("PGOPTIONS", f"-c nightlatch.mark={MARK.token}:{MARK.grant}:{MARK.name}")
    write = f"INSERT INTO {gate.name}.article VALUES ('psql', 1)"
    postgres.psql(write)
    gate.seal(NEWER, "newer")
    with pytest.raises(AssertionError, match="token 7 was offered"):
        postgres.psql(write)
    assert postgres_target.read() == ["psql"]


def test_a_trigger_holds_the_fence_to_the_end_of_the_transaction(postgres_target, monkeypatch):
    """Raw SQL that has the token cannot be overtaken between its statement and its commit."""
    from nightlatch.gates import sql_postgres

    monkeypatch.setattr(sql_postgres, "GIVEN", 0.1)
    gate = postgres_target.gate()
    gate.install("article")
    gate.seal(MARK, "me")
    with closing(postgres_target.connect()) as raw:
        raw.execute(f"SET nightlatch.mark = '{MARK.token}:{MARK.grant}:{MARK.name}'")
        raw.execute("INSERT INTO article VALUES ('raw', 1)")
        gate.seal(NEWER, "newer")
        with pytest.raises(psycopg.OperationalError):
            raw.commit()
    assert postgres_target.read() == []


def test_a_partition_is_guarded_with_its_table(postgres_target):
    gate = postgres_target.gate()
    with closing(postgres_target.connect()) as connection:
        connection.execute("CREATE TABLE log (n int) PARTITION BY RANGE (n)")
        connection.execute("CREATE TABLE log_low PARTITION OF log FOR VALUES FROM (0) TO (10)")
        connection.commit()
        gate.install("log")
        with pytest.raises(psycopg.Error, match="behind the gate"):
            connection.execute("INSERT INTO log_low VALUES (1)")
        connection.rollback()
        with gate.transaction(connection, MARK):
            connection.execute("INSERT INTO log VALUES (1)")
    assert len(gate.guarded()) == 2


def test_who_may_write_to_a_guarded_table_needs_no_right_on_the_marks(postgres, postgres_target):
    gate = postgres_target.gate()
    gate.install("article")
    gate.seal(MARK, "me")
    role = f"app_{identity.new_id()}"
    postgres.psql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {gate.name} TO {role}; "
                  f"GRANT INSERT ON {gate.name}.article TO {role}")  # fmt: skip
    url = postgres_target.url.replace("postgres@", f"{role}@")
    with closing(psycopg.connect(url.partition("#")[0])) as connection:
        with gates.Sql.from_url(postgres_target.url).transaction(connection, MARK):
            connection.execute("INSERT INTO article VALUES ('app', 1)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE nightlatch_gates.mark SET token = 0")
    postgres.psql(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert postgres_target.read() == ["app"]


def test_a_table_is_behind_one_gate(target):
    target.gate().install("article")
    target.gate().install("article", "entry")
    other = gates.Sql("other", target.url.partition("#")[0])
    with pytest.raises(UsageError, match="already"):
        other.install("article")
    with pytest.raises(UsageError, match="no table"):
        target.gate().install("missing")


def test_after_adopt_the_triggers_too_refuse_the_old_store(target):
    gate = target.gate()
    gate.install("article")
    gate.seal(MARK, "me")
    assert gate.adopt("6" * 32) == 1
    with closing(target.connect()) as connection:
        if target.sqlite:
            with pytest.raises(StaleToken):
                insert(target, connection)
        else:
            connection.execute(f"SET nightlatch.mark = '{MARK.token}:{MARK.grant}:{MARK.name}'")
            with pytest.raises(psycopg.Error, match="behind the gate"):
                connection.execute("INSERT INTO article VALUES ('x', 1)")


# The command line


def test_install_show_and_remove(target, sqlite_url):
    database, _, name = target.url.partition("#")
    done = command(sqlite_url, "gate", "install", database, "--name", name, "--table", "article", "--table", "entry")
    assert (done.returncode, done.stderr) == (0, "")
    assert command(sqlite_url, "lock", "job", "--gate", target.url, "--", "true").returncode == 0
    other = sqlite_url.replace("nightlatch.db", "other.db")
    assert command(other, "lock", "job", "--gate", target.url, "--", "true").returncode == 73
    shown = command(sqlite_url, "gate", "show", target.url)
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["gate", "mark", "guards", "guards", "refused"]
    facts = json.loads(command(sqlite_url, "gate", "show", target.url, "--json").stdout)
    assert [table.rpartition(".")[2] for table in facts["tables"]] == ["article", "entry"]
    assert command(sqlite_url, "gate", "remove", target.url, "--table", "article").returncode == 0
    assert [table.rpartition(".")[2] for table in target.gate().guarded()] == ["entry"]
    assert command(sqlite_url, "gate", "remove", target.url, "--table", "article").returncode == 64
    assert command(sqlite_url, "gate", "remove", target.url).returncode == 0
    assert target.gate().guarded() == []
    assert target.gate().standing(), "the marks stay"
    with closing(target.connect()) as connection:
        connection.execute("INSERT INTO article VALUES ('free', 1)")


def test_one_table_names_its_gate(sqlite_target, tmp_path, sqlite_url):
    done = command(sqlite_url, "gate", "install", f"sqlite:///{tmp_path}/site.db", "--table", "article")
    assert "#article: article guarded" in done.stdout
    assert gates.Sql("article", f"sqlite:///{tmp_path}/site.db").guarded() == ["article"]


@pytest.mark.parametrize(
    "words",
    [["install", "sqlite:///site.db"], ["install", "sqlite:///site.db#a", "--name", "b"], ["show", "sqlite:///site.db"],
     ["show", "sqlite:///none.db#a"], ["show", "sqlite:///site.db#a", "--table", "t"], ["install", "out.html#a"],
     ["install", "sqlite:///site.db#a", "--table", "missing"], ["show", "sqlite://elsewhere/site.db#a"]],
    ids=" ".join,
)  # fmt: skip
def test_a_call_that_cannot_be_meant_is_64(sqlite_target, sqlite_url, tmp_path, words):
    assert command(sqlite_url, "gate", *words, cwd=tmp_path).returncode == 64


def test_a_database_on_another_machine_is_left_to_the_holders_there(sqlite_url):
    with nightlatch.lease("job", store=sqlite_url) as lease:
        lease.store.register("job", lease.grant, "sqlite://another-machine/srv/site.db#articles")
    with nightlatch.lease("job", store=sqlite_url):
        pass
