"""Opening the run of a job and a key: it is new, or pending again. If several processes try at once, one succeeds."""

from __future__ import annotations

import os

from ..core import statuses
from ..core.model import check_name
from . import kinds
from .chain import clean, link
from .changing import change
from .records import RUN, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tables import Tables

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are easily misread

_CREATE = f"{RUN.put} ON CONFLICT DO NOTHING {{matched}}"


def find(tables: Tables, job: str, key: str) -> RunRow | None:
    return tables.first(RUN, "WHERE job = :job AND key = :key", job=job, key=clean(key))


def open_run(
    tables: Tables, job: str, key: str, *, slot: str, command: str, definition: str, host: str, again: bool, new: bool,
    lazy: bool, seen: RunRow | None = None,
) -> RunRow:  # fmt: skip
    check_name(job)
    while True:
        run, new = None if new else find(tables, job, key), False
        if run is None:
            values = {"job": job, "key": key, "slot": slot, "command": command, "definition": definition, "host": host}
            run = _create(tables, values, lazy)
        elif seen and _is_cancelled_since(run, seen):
            return run
        elif statuses.may_start(run.status) or (again and run.status == statuses.SUCCEEDED):
            run = change(tables, run, statuses.PENDING, kinds.OPENED_AGAIN, host=host)
        if run is not None:
            return run


def _is_cancelled_since(run: RunRow, seen: RunRow) -> bool:
    """Has a person cancelled, since it was `seen`, what was to begin then? This start is what they cancelled."""
    waited = seen.status in (statuses.PENDING, statuses.WAITING)
    return waited and run.status == statuses.CANCELLED and run.attempt == seen.attempt


def _create(tables: Tables, values: dict[str, str], lazy: bool) -> RunRow | None:
    facts: dict[str, Any] = {name: clean(text) for name, text in values.items()}
    kind = str(kinds.OPENED)
    body = kinds.body(kind, kinds.RUN, {name: text for name, text in facts.items() if text})
    run_id = new_id()
    with tables.on_chain(values["job"], lazy=lazy) as chain:
        head, at = link("", run_id, 1, chain.at, kind, body), chain.at / 1000
        anchor = chain.append(kind, run=run_id, seq=1, head=head)
        run = RunRow(id=run_id, **facts, created=at, changed=at, seq=1, head=head, anchor=anchor)
        if not chain(_CREATE, **RUN.by_column(run)):
            chain.forget()  # another process was faster
            return None
        chain.enter(run_id, 1, kind, body, head)
        return run


def new_id() -> str:
    """60 random bits in 12 characters: short enough to type, and the table refuses a collision."""
    number = int.from_bytes(os.urandom(8))
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(0, 60, 5))
