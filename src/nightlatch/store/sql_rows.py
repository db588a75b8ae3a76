"""The jobs' rows in an SQL database. Many moves are one transaction; `{unlocked}` skips rows that another transaction
is moving: two that wait for each other's rows would deadlock."""

from __future__ import annotations

from ..core.row import Cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from ..core.row import Move
    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase

    Row = tuple[Any, ...]

_ALL = "SELECT job, id, slot, wake, body FROM {prefix}job"
_ONE = f"{_ALL} WHERE job = :job"
_DUE = f"{_ALL} WHERE wake <= :due ORDER BY wake, job"

_BEGIN = """
INSERT INTO {prefix}job (job, id, slot, wake, body)
SELECT CAST(:job AS TEXT), CAST(:id AS TEXT), CAST(:slot AS BIGINT), CAST(:wake AS BIGINT), CAST(:body AS TEXT)
WHERE :slot <= {wall}
ON CONFLICT (job) DO NOTHING RETURNING job
"""

_MOVE = """
UPDATE {prefix}job SET id = :id, slot = :slot, wake = :wake, body = :body
WHERE job IN (SELECT job FROM {prefix}job WHERE job = :job {unlocked})
  AND id = :seen AND (:slot <= slot OR :slot <= {wall}) RETURNING job
"""

_WON = "SELECT 1 FROM {prefix}job WHERE job = :job AND id = :id"

_FEW = 50  # rows that are read one by one


def cursors(
    db: SqliteDatabase | PostgresDatabase, render: Callable[[str], str], jobs: Collection[str] | None, due: float | None
) -> list[Cursor]:
    if due is not None:
        return [_cursor(row) for row in db.read(render(_DUE), due=_ms(due))]
    if jobs is None or len(jobs) > _FEW:
        found = map(_cursor, db.read(render(_ALL)))
        return [cursor for cursor in found if jobs is None or cursor.job in jobs]
    return [_cursor(row) for job in jobs for row in db.read(render(_ONE), job=job)]


def advance(db: SqliteDatabase | PostgresDatabase, render: Callable[[str], str], moves: Sequence[Move]) -> list[bool]:
    if not moves:
        return []
    won: dict[str, bool] = {}
    with db.transaction() as execute:
        for move in sorted(moves, key=lambda move: move.job):  # all insert in one order: no deadlock
            values: dict[str, Any] = {
                "job": move.job, "id": move.id, "slot": _ms(move.slot), "wake": _ms(move.wake), "body": move.body,
            }  # fmt: skip
            how = (_MOVE, {"seen": move.seen}) if move.seen else (_BEGIN, {})
            moved = execute(render(how[0]), **how[1], **values)
            won[move.id] = bool(moved or execute(render(_WON), job=move.job, id=move.id))
    return [won[move.id] for move in moves]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _cursor(row: Row) -> Cursor:
    job, id_, slot, wake, body = row
    return Cursor(job=job, id=id_, slot=slot / 1000, wake=wake / 1000, body=body)
