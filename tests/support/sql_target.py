"""A target for the SQL gate: tables of its own in a real database, and the user's side of a connection."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark


def connect(gate: gates.Sql) -> Any:
    """The user's own connection, as a user would open it."""
    if gate.url.startswith("sqlite:"):
        return sqlite3.connect("/" + gate.url.partition("#")[0].removeprefix("sqlite://").partition("/")[2], timeout=30)
    import psycopg

    return psycopg.connect(gate.url.partition("#")[0])


def replace(connection: Any, mark: Mark, content: str) -> None:
    """The block of a transaction: one row replaced by another."""
    connection.execute("DELETE FROM article")
    connection.execute(f"INSERT INTO article VALUES ('{content}', {mark.token})")


class Target:
    """A few tables of its own, and the gate in front of them."""

    TABLES = ("article (body TEXT, token BIGINT)", "entry (number BIGINT, token BIGINT)", "total (number BIGINT)")

    def __init__(self, url: str) -> None:
        self.url = url
        with closing(self.connect()) as connection:
            for table in self.TABLES:
                connection.execute(f"CREATE TABLE {table}")
            connection.execute("INSERT INTO total VALUES (-1)")
            connection.commit()

    @property
    def sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    def gate(self) -> gates.Sql:
        return gates.Sql.from_url(self.url)

    def connect(self) -> Any:
        return connect(self.gate())

    def write(self, its: Mark, content: str) -> None:
        with closing(self.connect()) as connection, self.gate().transaction(connection, its):
            replace(connection, its, content)

    def read(self) -> list[str]:
        with closing(self.connect()) as connection:
            return [body for (body,) in connection.execute("SELECT body FROM article").fetchall()]
