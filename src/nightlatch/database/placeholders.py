"""Statements with named parameters, as PostgreSQL takes them: with numbers."""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def numbered(sql: str, values: dict[str, Any]) -> tuple[bytes, list[object]]:
    """The statement as it is sent, and its parameters."""
    statement, names = translate(sql)
    return statement, [values[name] for name in names]


@cache
def translate(sql: str) -> tuple[bytes, list[str]]:
    """`:name` → `$1`, and the names in that order. A cast (`::text`) is not a name."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"(?<!:):([a-z_][a-z_0-9]*)", number, sql).encode(), names
