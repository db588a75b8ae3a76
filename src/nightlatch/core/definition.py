"""Which definition of a job is in force, where several machines have a file each."""

from __future__ import annotations

from .row import BEFORE, Row
from .value import replace

SAME, NEW, OLD = "same", "new", "old"


def judge(row: Row, mine: str, last_served: str, *, shared: bool) -> str:
    """Is my definition the one in force, does it come into force now, or is it old?

    A definition that the row does not know is new. One that was in force before is old, unless this machine has itself
    served the one that is in force now: then a person here has reverted to it. On a store that serves one machine there
    is one file, and its definition always counts. `last_served`: the mark that this machine remembers, or two lines:
    it has also tried to bring another into force, and may have.
    """
    if row.definition == mine:
        return SAME
    if not shared or not row.definition or mine not in row.before or mark(row) in last_served.split("\n"):
        return NEW
    return OLD


def mark(row: Row) -> str:
    """What a machine that serves the definition in force remembers. The number differs for a definition that was
    edited and restored since, although its text is the same: a machine that slept meanwhile has the older number."""
    return f"{row.definition} {row.edition}"


def renewed(row: Row, mine: str) -> Row:
    """The row with another definition in force: runs under the previous one are not evidence for it."""
    before = tuple(one for one in (row.definition, *row.before) if one and one != mine)
    return replace(row, definition=mine, edition=row.edition + 1, before=before[:BEFORE], clean=0)
