"""The budget that a person has set for a run, in place of the one it was started with."""

from __future__ import annotations

from . import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .records import RunRow
    from .tables import Tables

_PUT = """
INSERT INTO {prefix}budget (run, caps) VALUES (:run, :caps) ON CONFLICT (run) DO UPDATE SET caps = excluded.caps
"""


def put(tables: Tables, run: RunRow, caps: str, by: str) -> None:
    with tables.on_chain(run.job) as chain:
        chain(_PUT, run=run.id, caps=caps)
        chain.append(kinds.BUDGET, run=run.id, caps=caps, by=by)


def find(tables: Tables, run: str, *, patience: float) -> str:
    """ "" if nobody has set one. Reads one row, and waits for no writer."""
    rows = tables.read("SELECT caps FROM {prefix}budget WHERE run = :run", patience=patience, run=run)
    return str(rows[0][0]) if rows else ""
