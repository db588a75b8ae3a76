"""The SQL gate keeps what `GateConformance` asks of any gate, on both databases, with triggers and without."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.system import identity
from nightlatch.testing.gates import GateConformance
from tests.servers import PostgresServer


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
