"""Heads and rows of the ledger at one moment: read by one statement, so that no writer comes in between."""

from __future__ import annotations

from typing import Any

from ..database.guarded import Table
from .effects import EFFECT
from .records import ATTEMPT, RUN
from .tables import Tables

Facts = dict[str, Any]

# The columns of each table: texts, then numbers. The widest table comes first: it sets the types of the union.
_COLUMNS = {
    table.name: tuple([name for name, kind in table.columns.items() if kind == of] for of in ("TEXT", "BIGINT"))
    for table in (RUN, ATTEMPT, EFFECT, Table("chain", {"name": "TEXT", "head": "TEXT", "seq": "BIGINT"}))
}
_TEXTS, _NUMBERS = map(len, _COLUMNS["run"])


def _select(table: str) -> str:
    texts, numbers = _COLUMNS[table]
    padded = [*texts, *["''"] * (_TEXTS - len(texts)), *numbers, *["NULL"] * (_NUMBERS - len(numbers))]
    return f"SELECT '{table}', {', '.join(padded)} FROM {{prefix}}{table}"


_ALL = " UNION ALL ".join(map(_select, _COLUMNS))


class Snapshot:
    def __init__(self, tables: Tables) -> None:
        self.now = tables.now()
        self.runs: dict[str, Facts] = {}
        self.attempts: dict[str, dict[int, Facts]] = {}
        self.effects: dict[tuple[str, str], Facts] = {}
        self.heads: dict[str, tuple[int, str]] = {}  # of jobs' chains and of runs' chains
        for table, *row in tables.read(_ALL):
            texts, numbers = _COLUMNS[table]
            facts = dict(zip(texts, row, strict=False)) | dict(zip(numbers, row[_TEXTS:], strict=False))
            match table:
                case "run":
                    self.runs[facts["id"]] = facts
                    self.heads[facts["id"]] = facts["seq"], facts["head"]
                case "attempt":
                    self.attempts.setdefault(facts["run"], {})[facts["attempt"]] = facts
                case "effect":
                    self.effects[facts["scope"], facts["key"]] = facts
                case "chain":
                    self.heads[facts["name"]] = facts["seq"], facts["head"]
