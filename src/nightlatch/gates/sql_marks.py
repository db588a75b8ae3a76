"""Marks and refusals from the rows of a SQL gate's tables, which are the same on every database."""

from __future__ import annotations

from ..core.fence import KeptMark, Refusal
from ..core.model import Mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MARK = "store, lease, token, grant_id, by, at"
REFUSAL = "at, lease, offered, grant_id, store, stands, by"


def marks(rows: Iterable[Any]) -> dict[str, KeptMark]:
    """Marks by lease name, from rows of the columns `MARK`."""
    return {
        lease: KeptMark(mark=Mark(store=store, name=lease, token=token, grant=grant), by=by, at=at)
        for store, lease, token, grant, by, at in rows
    }


def refusals(rows: Iterable[Any]) -> list[Refusal]:
    """Refusals, from rows of the columns `REFUSAL`."""
    return [
        Refusal(at=at, name=name, offered=offered, grant=grant, store=store, current=current, by=by)
        for at, name, offered, grant, store, current, by in rows
    ]
