"""Tables behind the SQL gate: their triggers refuse what does not come through it; `nightlatch gate install`."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from nightlatch import gates
from nightlatch.errors import StaleToken, UsageError
from nightlatch.system import identity
from tests.support.programs import nightlatch as command
from tests.support.sql_gate import MARK, NEWER, insert

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
    with pytest.raises(AssertionError, match="token 7 is not its current one"):
        postgres.psql(write)
    assert postgres_target.read() == ["psql"]


def test_a_trigger_holds_the_fence_to_the_end_of_the_transaction(postgres_target, monkeypatch):
    """Raw SQL that has the token cannot be overtaken between its statement and its commit."""
    from nightlatch.gates import sql_postgres

    monkeypatch.setattr(sql_postgres, "GRACE", 0.1)
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


def test_a_child_of_a_guarded_table_is_guarded_with_it(postgres_target):
    """By INHERITS, at any depth: a write to the child is seen in its parent, and reaches none of its triggers."""
    gate = postgres_target.gate()
    with closing(postgres_target.connect()) as connection:
        connection.execute("CREATE TABLE child () INHERITS (article)")
        connection.execute("CREATE TABLE grandchild () INHERITS (child)")
        connection.commit()
        gate.install("article")
        assert sorted(gate.guarded()) == ["article", "child", "grandchild"]
        for write in ("INSERT INTO child VALUES ('x', 1)", "INSERT INTO grandchild VALUES ('x', 1)", "TRUNCATE child"):
            with pytest.raises(psycopg.Error, match="behind the gate"):
                connection.execute(write)
            connection.rollback()
        with gate.transaction(connection, MARK):
            connection.execute("INSERT INTO child VALUES ('x', 1)")
        gate.remove("article")
        assert gate.guarded() == []


def test_a_part_that_was_added_after_the_triggers_is_named_until_it_is_guarded(postgres_target, sqlite_url):
    gate = postgres_target.gate()
    gate.install("article")
    with closing(postgres_target.connect()) as connection:
        connection.execute("CREATE TABLE child () INHERITS (article)")
        connection.commit()
    shown = command(sqlite_url, "gate", "show", gate.url)
    assert [line.split()[:2] for line in shown.stdout.splitlines() if line.startswith("open")] == [["open", "child"]]
    gate.install("article")
    assert gate.unguarded() == []


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
