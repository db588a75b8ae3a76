"""Is the holder of a grant gone, with every process it started?

A lease moves before its TTL only on proof: the holder's lifetime lock is free AND every check that this machine can
make (system/remains.py) finds nothing left of its tree. Without proof the challenger waits for the TTL.
"""

from __future__ import annotations

from ..core.model import Record
from ..system import identity, lifetime, process


def gone(record: Record) -> bool:
    """True only if no process of this grant lives. Ends survivors whose supervisor and warden are dead."""
    holder = record.holder
    if not identity.same_machine(holder):
        return False
    if not identity.same_boot(holder):
        # The lock must be free too: a container or a restored machine can show another boot id and yet be alive.
        return bool(holder.lifetime) and lifetime.is_over(holder.lifetime)
    if holder.pidns != identity.pid_namespace():
        return False  # its processes cannot be seen from here
    if holder.lifetime:
        return lifetime.is_over(holder.lifetime) and not _end_remains(record)
    return holder.pid != 0 and process.state_of(holder.pid, holder.start) in (process.GONE, process.ZOMBIE)


def end_survivors(record: Record) -> list[str]:
    """End what still runs under the grant on this machine, since its TTL has passed. Returns, for people to read, the
    processes that cannot be proven gone."""
    holder = record.holder
    if holder.lifetime and identity.same_boot(holder) and holder.pidns == identity.pid_namespace():
        return _end_remains(record)
    return []


def _end_remains(record: Record) -> list[str]:
    from ..system.remains import Remains

    return Remains(record.holder.lifetime, record.grant, record.holder.start).end()
