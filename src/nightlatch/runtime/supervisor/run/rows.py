"""Read and move a job's row in the store."""

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


def move_row(store: Store, ledger: Ledger, row: Row, new: Row) -> Row | None:
    """Replace a row by `new`; returns the row as it is then. None, and nothing changed, if another process has moved it
    since it was read.

    Records that the move drops are written to the ledger first: nothing else may have them.
    """
    if new.records != row.records:
        ledger.slots.put((row.job, record) for record in row.records_missing_in(new))
    new = replace(new, by=identity.host())
    move = row.move_to(new, identity.new_id())
    try:
        moved = store.advance([move])[0]
    except StoreUnreachable:
        clock.sleep(0.2)
        moved = store.advance([move])[0]  # if only the reply was lost, the move finds its own id
    if moved and new.records != row.records:
        # Only for readers of the ledger: the row has these records, and the next move writes what it drops first.
        ledger.slots.put(((row.job, record) for record in new.records_missing_in(row)), lazy=True)
    return replace(new, id=move.id) if moved else None
