"""Two holders of the SQL gate, and a write through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.marks import mark
from tests.support.sql_target import Target

MARK, NEWER = mark(7), mark(8)


def insert(target: Target, connection: Any, its: Any = MARK, then: Callable[[], object] = lambda: None) -> None:
    with target.gate().transaction(connection, its):
        connection.execute("INSERT INTO article VALUES ('x', 1)")
        then()
