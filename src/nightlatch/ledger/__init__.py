"""What happened? Runs, attempts, usage, and a hash-chained journal of it all.

Knows nothing of leases' rules, gates or commands; imports `core`, `system`, `database` and a store's URL.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Ledger


def open_for(store_url: str | None = None) -> Ledger:
    """The ledger that belongs to a store. Nothing is opened before the first verb."""
    from .location import open_for

    return open_for(store_url)
