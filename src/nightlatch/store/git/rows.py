"""The jobs' rows, a ref each. All rows of a due moment move in one push, all or none; if one of them has moved on, the
others are pushed again without it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...core.row import Cursor, Move
from ...system import clock
from . import names, record
from .objects import Commit
from .refs import PATIENCE, TRIES, RefChange, Refs
from .repository import Moved

_MAX_NAMED = 50  # up to this many refs are looked at by name; for more, all are looked at


def look(refs: Refs, jobs: Collection[str] | None = None) -> list[Cursor]:
    """The rows at the remote, read in one request."""
    found = [record.read_row(commit.message) for commit in _read(refs, jobs).values()]
    return sorted((row for row in found if jobs is None or row.job in jobs), key=lambda row: row.job)


def advance(refs: Refs, moves: Sequence[Move]) -> list[bool]:
    if not moves:
        return []
    with refs.turn(names.ROWS):
        for _ in range(TRIES):
            found = _read(refs, [move.job for move in moves])
            commits = {move.job: found.get(names.row(move.job)) for move in moves}
            won = {
                move.id
                for move in moves
                if (commit := commits[move.job]) and record.read_row(commit.message).id == move.id
            }
            to_push = [move for move in moves if move.id not in won and _may_move(move, commits[move.job])]
            if not to_push:
                return [move.id in won for move in moves]
            changes = [RefChange(names.row(move.job), commits[move.job], record.row_message(move)) for move in to_push]
            try:
                refs.push(changes, PATIENCE)
            except Moved:
                continue
            return [move.id in won or move in to_push for move in moves]
    raise refs.crowded(names.ROWS)


def _may_move(move: Move, commit: Commit | None) -> bool:
    """May the row move so? Judged by this machine's clock, since the store has none."""
    if commit is None:
        return not move.seen and move.slot <= clock.wall()
    row = record.read_row(commit.message)
    return row.id == move.seen and (move.slot <= row.slot or move.slot <= clock.wall())


def _read(refs: Refs, jobs: Collection[str] | None) -> dict[str, Commit]:
    patterns = [names.row(job) for job in jobs] if jobs is not None and len(jobs) <= _MAX_NAMED else [f"{names.ROWS}*"]
    found = refs.get(*patterns)
    refs.last_seen |= found  # a commit that is known by its id is not fetched again
    return found
