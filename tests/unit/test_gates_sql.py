"""The SQL gate as its user meets it: transactions, and the user's own connections."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import nightlatch
from nightlatch import gates
from nightlatch.errors import GateUnreachable, StaleToken, UsageError
from nightlatch.system import identity
from tests.support.marks import mark
from tests.support.sql_gate import MARK, NEWER, insert
from tests.support.sql_target import Target


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


def test_an_overtaken_holder_does_not_write_where_the_marks_were_removed(target):
    gate = target.gate()
    gate.seal(MARK, "me")
    target.gate().seal(NEWER, "newer")
    with closing(target.connect()) as connection:
        connection.execute(f"DELETE FROM {'nightlatch_mark' if target.sqlite else 'nightlatch_gates.mark'}")
        connection.commit()
        with pytest.raises(GateUnreachable, match="gone"), gate.transaction(connection, MARK):
            connection.execute("INSERT INTO article VALUES ('stale', 1)")
    assert target.read() == []


def test_a_transaction_that_is_open_already_is_not_taken_over(sealed):
    with closing(sealed.connect()) as connection:
        connection.execute("INSERT INTO article VALUES ('mine', 1)")
        with pytest.raises(UsageError, match="already"):
            insert(sealed, connection)
        connection.rollback()


def _in_a_transaction_of_its_own(connection: Any) -> None:
    connection.rollback()
    with connection.transaction():
        connection.execute("INSERT INTO article VALUES ('late', 1)")


ENDS: dict[str, Callable[[Any], object]] = {
    "commit": lambda connection: connection.commit(),
    "rollback": lambda connection: connection.rollback(),
    "COMMIT": lambda connection: connection.execute("COMMIT"),
    "ROLLBACK": lambda connection: connection.execute("ROLLBACK"),
    "begin again": lambda connection: (connection.execute("ROLLBACK"), connection.execute("BEGIN")),
    "ROLLBACK AND CHAIN": lambda connection: connection.execute("ROLLBACK AND CHAIN"),
    "COMMIT AND CHAIN": lambda connection: connection.execute("COMMIT AND CHAIN"),
    "transaction": _in_a_transaction_of_its_own,
}
ON_SQLITE = list(ENDS)[:5]


@pytest.mark.parametrize("end", ON_SQLITE)
def test_a_block_that_ends_its_transaction_by_itself_is_told_so(sealed, end):
    with closing(sealed.connect()) as connection:
        with pytest.raises((UsageError, psycopg.ProgrammingError), match=r"not fenced|forbidden"):
            insert(sealed, connection, then=lambda: ENDS[end](connection))
        insert(sealed, connection)
    assert sealed.read()[-1] == "x"


@pytest.mark.parametrize("autocommit", [False, True], ids=["", "autocommit"])
@pytest.mark.parametrize(("kind", "end"), [("sqlite", end) for end in ON_SQLITE] + [("postgres", end) for end in ENDS])
def test_what_a_block_writes_after_it_has_ended_its_transaction_is_not_committed(kind, end, autocommit, request):
    """A block that catches an error, rolls back and goes on is in a transaction that no seal waits for."""
    sealed = request.getfixturevalue(f"{kind}_target")
    sealed.gate().seal(MARK, "me")
    connection = sealed.connect()
    setting = "isolation_level" if sealed.sqlite else "autocommit"
    if autocommit:
        setattr(connection, setting, None if sealed.sqlite else True)
    before = getattr(connection, setting)

    def goes_on() -> None:
        ENDS[end](connection)
        connection.execute("INSERT INTO article VALUES ('late', 1)")

    with closing(connection):
        with pytest.raises((UsageError, psycopg.ProgrammingError), match=r"not fenced|forbidden"):
            insert(sealed, connection, then=goes_on)
        assert "late" not in sealed.read()
        assert getattr(connection, setting) == before
        insert(sealed, connection)


def test_what_a_script_wrote_is_not_called_rolled_back(sqlite_target):
    """sqlite3 commits before a script, and runs it in no transaction."""

    def script() -> None:
        connection.executescript("INSERT INTO article VALUES ('of the script', 1)")
        connection.execute("INSERT INTO article VALUES ('late', 1)")

    sqlite_target.gate().seal(MARK, "me")
    refused = pytest.raises(UsageError, match="rolled back, but for what a script wrote")
    with closing(sqlite_target.connect()) as connection, refused:
        insert(sqlite_target, connection, then=script)
    assert "of the script" in sqlite_target.read() and "late" not in sqlite_target.read()


def test_savepoints_inside_the_block_are_its_own_affair(sealed):
    def undone() -> None:
        connection.execute("SAVEPOINT mine")
        connection.execute("INSERT INTO article VALUES ('undone', 1)")
        connection.execute("ROLLBACK TO mine")
        if not sealed.sqlite:
            with connection.transaction(force_rollback=True):
                connection.execute("INSERT INTO article VALUES ('undone', 1)")

    with closing(sealed.connect()) as connection:
        insert(sealed, connection, then=undone)
    assert sealed.read() == ["x"]


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
