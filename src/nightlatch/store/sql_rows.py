"""The jobs' rows in an SQL database. Several moves are one transaction; where there may be several writers, it skips
rows that another transaction is moving, because two transactions that wait for each other's rows would deadlock."""

from __future__ import annotations

from ..core.row import Cursor, Move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase

    Row = tuple[Any, ...]

_READ_ALL = "SELECT job, id, slot, wake, body FROM {prefix}job"
_READ_ONE = f"{_READ_ALL} WHERE job = :job"
_READ_DUE = f"{_READ_ALL} WHERE wake <= :due ORDER BY wake, job"

_INSERT = """
INSERT INTO {prefix}job (job, id, slot, wake, body)
SELECT CAST(:job AS TEXT), CAST(:id AS TEXT), CAST(:slot AS BIGINT), CAST(:wake AS BIGINT), CAST(:body AS TEXT)
WHERE :slot <= {wall}
ON CONFLICT (job) DO NOTHING
"""

_MOVE = """
UPDATE {prefix}job SET id = :id, slot = :slot, wake = :wake, body = :body
WHERE job = :job AND id = :seen AND (:slot <= slot OR :slot <= {wall})
"""
_MOVE_UNLOCKED = f"{_MOVE} AND job IN (SELECT job FROM {{prefix}}job WHERE job = :job {{unlocked}})"

_READ_IDS = "SELECT job, id FROM {prefix}job"

_MAX_SINGLE_READS = 50  # up to this many rows are read one by one; for more, the whole table is read


def cursors(
    db: SqliteDatabase | PostgresDatabase, render: Callable[[str], str], jobs: Collection[str] | None, due: float | None
) -> list[Cursor]:
    if due is not None:
        return [_cursor(row) for row in db.read(render(_READ_DUE), due=_ms(due))]
    if jobs is None or len(jobs) > _MAX_SINGLE_READS:
        found = map(_cursor, db.read(render(_READ_ALL)))
        return [cursor for cursor in found if jobs is None or cursor.job in jobs]
    return [_cursor(row) for job in jobs for row in db.read(render(_READ_ONE), job=job)]


def advance(db: SqliteDatabase | PostgresDatabase, render: Callable[[str], str], moves: Sequence[Move]) -> list[bool]:
    if len(moves) < 2:
        return [_advance_one(db, render, move) for move in moves]
    ordered = sorted(moves, key=lambda move: move.job)  # every process inserts in the same order, so that none deadlock
    with db.transaction() as execute:
        execute.many(render(_INSERT), [_values(move) for move in ordered if not move.seen])
        execute.many(render(_move_of(db)), [_values(move) for move in ordered if move.seen])
        if len(moves) > _MAX_SINGLE_READS:
            found = execute(render(_READ_IDS))
        else:
            found = [row for move in moves for row in execute(render(f"{_READ_IDS} WHERE job = :job"), job=move.job)]
    ids: dict[str, str] = dict(found)
    return [ids.get(move.job) == move.id for move in moves]


def _advance_one(db: SqliteDatabase | PostgresDatabase, render: Callable[[str], str], move: Move) -> bool:
    """One move is the usual case: it needs no transaction."""
    sql = render(f"{_move_of(db) if move.seen else _INSERT} RETURNING job")
    if db.write(sql, **_values(move)):
        return True
    return [(move.job, move.id)] == db.read(render(f"{_READ_IDS} WHERE job = :job"), job=move.job)


def _move_of(db: SqliteDatabase | PostgresDatabase) -> str:
    return _MOVE_UNLOCKED if db.unlocked else _MOVE


def _values(move: Move) -> dict[str, Any]:
    values = {"job": move.job, "id": move.id, "slot": _ms(move.slot), "wake": _ms(move.wake), "body": move.body}
    return values | {"seen": move.seen} if move.seen else values


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _cursor(row: Row) -> Cursor:
    job, id_, slot, wake, body = row
    return Cursor(job=job, id=id_, slot=slot / 1000, wake=wake / 1000, body=body)
