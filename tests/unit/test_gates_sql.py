"""The SQL gate as its user meets it: transactions, and the user's own connections."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import nightlatch
from nightlatch import gates
from nightlatch.errors import StaleToken, UsageError
from nightlatch.system import identity
from tests.marks import mark
from tests.sql_target import Target
from tests.unit.sql_gate import MARK, NEWER, insert


@pytest.fixture
def sealed(target: Target) -> Target:
    target.gate().seal(MARK, "me")
    return target


def test_with_a_lease_the_gate_is_registered_and_sealed_by_itself(target, sqlite_url):
    with nightlatch.lease("job", store=sqlite_url) as lease, closing(target.connect()) as connection:
        insert(target, connection, lease)
        assert target.gate().standing()["job"].mark == lease.mark
        record = lease.store.acquire("job", lease.grant, lease.holder, 60.0)
        assert record.gates == (target.gate().url,)


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
        with pytest.raises(StaleToken), postgres_target.gate().transaction(connection, mark(6)):
            pass
        assert connection.autocommit is autocommit
    assert postgres_target.read() == ["x"]


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
