"""The SQL gate keeps what `GateConformance` asks of any gate, on both databases, with triggers and without."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import OtherStore
from nightlatch.system import identity
from nightlatch.testing.expect import together
from nightlatch.testing.gates import GateConformance
from tests.support.servers.postgres import PostgresServer


@pytest.fixture(params=["bare", "triggers"])
def guarded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "triggers")


class SqlConformance(GateConformance):
    """The target is a table of one row."""

    name = "articles"
    database: str
    table = "article"

    def connect(self) -> Any:
        raise NotImplementedError

    def test_of_many_stores_that_come_at_once_one_has_the_gate(self) -> None:
        """Each under a name of its own, so that no row of one is in the way of another's."""
        for turn in range(self.rounds):
            gate = gates.Sql(f"{self.name}-{turn}", self.database)
            marks = [self.from_another_store(self.mark(1000, f"job{place}")) for place in range(self.racers)]
            outcomes = together(functools.partial(gate.seal, by="me"), marks)
            assert [type(outcome) for outcome in outcomes].count(OtherStore) == self.racers - 1, outcomes
            assert len(gate.standing()) == 1

    def make_gate(self) -> gates.Sql:
        return gates.Sql(self.name, self.database)

    def write(self, gate: Any, mark: Mark, content: bytes) -> None:
        with closing(self.connect()) as connection, gate.transaction(connection, mark):
            connection.execute(f"DELETE FROM {self.table}")
            connection.execute(f"INSERT INTO {self.table} VALUES ('{content.decode()}')")

    def read(self) -> bytes | None:
        with closing(self.connect()) as connection:
            row = connection.execute(f"SELECT body FROM {self.table}").fetchone()
        return row[0].encode() if row else None


class TestSqlite(SqlConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, guarded: bool) -> None:
        self.path = tmp_path / "site.db"
        self.database = f"sqlite:///{self.path}"
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"CREATE TABLE {self.table} (body TEXT)")
        if guarded:
            self.make_gate().install(self.table)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)


class TestPostgres(SqlConformance):
    @pytest.fixture(autouse=True)
    def _place(self, postgres: PostgresServer, guarded: bool) -> Iterator[None]:
        self.name = f"articles-{identity.new_id()}"
        self.table = f"article_{identity.new_id()}"
        self.database = postgres.url().partition("?")[0]
        with self.connect() as connection:
            connection.execute(f"CREATE TABLE {self.table} (body text)")
        if guarded:
            self.make_gate().install(self.table)
        yield
        with self.connect() as connection:
            connection.execute(f"DROP TABLE {self.table}")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.database)
