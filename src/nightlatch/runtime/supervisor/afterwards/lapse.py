"""Has the holder of a running run left it behind? Finding out records nothing, takes no lease and ends no process.

That is enough to show the run. To act on it, acquire the lease and seal its gates first.
"""

from __future__ import annotations

from ....core import statuses
from ....core.model import Begun, Holder, Record
from ....errors import StoreUnreachable
from ....system import identity, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow

LAPSED = "lapsed"  # how such a run is shown. It is not a status: looking records nothing


def status_of(run: RunRow, ledger: Ledger, store: Store) -> str:
    """The run's status as a person should see it: its own, or `lapsed`.

    A store that does not answer proves nothing: then the run is shown as it is recorded.
    """
    if run.status != statuses.RUNNING or not (process_gone(run.holder) or _lease_gone(run, store)):
        return run.status
    # Or the run has just ended: its end is recorded before its lease is released, so read the run again.
    current = ledger.run(run.id)
    if current is None or (current.status, current.grant) != (run.status, run.grant):
        return current.status if current else run.status
    return LAPSED


def left_behind(record: Record, now: float) -> tuple[Begun, ...]:
    """Keys begun under a lease whose holder no longer works on them, as far as this machine knows at `now`."""
    return Begun.without(record.begun, {record.token} if at_work(record, now) else ())


def at_work(record: Record, now: float) -> bool:
    """May the holder still work under the lease, as far as this machine knows at `now`?"""
    return bool(record.grant) and record.until >= now and not process_gone(record.holder)


def process_gone(holder: Holder) -> bool:
    """Is the holder's process certainly gone? Only known on its own machine; elsewhere False."""
    if not holder.pid or not identity.same_machine(holder):
        return False
    if not identity.same_boot(holder):
        return True
    if holder.pidns != identity.pid_namespace():
        return False
    return process.state_of(holder.pid, holder.start) in (process.GONE, process.ZOMBIE)


def _lease_gone(run: RunRow, store: Store) -> bool:
    try:
        record = store.read(run.job)
    except StoreUnreachable:
        return False
    return record is None or record.grant != run.grant or (record.left is not None and record.left <= 0)
