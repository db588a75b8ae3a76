"""A job's row in the store, read and moved."""

from __future__ import annotations

from ....core import row as rows
from ....core.value import replace
from ....errors import StoreUnreachable
from ....system import clock, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....core.row import Row
    from ....ledger.ledger import Ledger

KEPT = 50  # records that a row keeps where each machine has its own ledger


def read_row(store: Store, job: str) -> Row | None:
    found = store.cursors([job])
    return rows.read(found[0]) if found else None


def move_row(store: Store, ledger: Ledger, row: Row, new: Row) -> bool:
    """Replace a row by `new`; False, and nothing changed, if another process has moved it since it was read.

    Records that the move drops are written to the ledger first: nothing else may have them.
    """
    if new.records != row.records:
        ledger.slots.put((row.job, record) for record in row.records_missing_in(new))
    move = row.move_to(replace(new, by=identity.host()), identity.new_id())
    try:
        won = store.advance([move])[0]
    except StoreUnreachable:
        clock.sleep(0.2)
        won = store.advance([move])[0]  # only the reply may be lost: sent again, it finds its own id
    if won and new.records != row.records:
        # For readers of the ledger alone: the row has them, and the process that moves it next writes them down first.
        ledger.slots.put(((row.job, record) for record in new.records_missing_in(row)), lazy=True)
    return won
