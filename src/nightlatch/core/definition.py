"""Which definition of a job is in force, where each of several machines has its own nightlatch.toml."""

from __future__ import annotations

from .row import MOST_BEFORE, Row
from .value import replace

SAME, NEW, OLD = "same", "new", "old"


def judge(row: Row, mine: str, last_served: str, *, shared: bool) -> str:
    """Is this machine's definition in force (SAME), does it come into force now (NEW), or is it outdated (OLD)?

    A definition that the row does not know is new. One that was in force before is outdated, unless this machine has
    already served the one in force now: then a person here has reverted the file. On a store that serves one machine
    there is one file, and its definition always counts. `last_served`: the `mark` that this machine remembers; a second
    line is the mark of a definition that it tried to bring into force, with unknown outcome.
    """
    if row.definition == mine:
        return SAME
    if not shared or not row.definition or mine not in row.before or mark(row) in last_served.split("\n"):
        return NEW
    return OLD


def mark(row: Row) -> str:
    """What a machine remembers of the definition in force when it serves it. The edition tells apart a definition that
    was edited and then restored: a machine that slept meanwhile remembers the older edition of the same text."""
    return f"{row.definition} {row.edition}"


def renewed(row: Row, mine: str) -> Row:
    """The row with `mine` in force, and no clean runs: those under the previous definition are not evidence for it."""
    before = tuple(one for one in (row.definition, *row.before) if one and one != mine)
    return replace(row, definition=mine, edition=row.edition + 1, before=before[:MOST_BEFORE], clean=0)
