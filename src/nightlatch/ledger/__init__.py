"""What happened? Runs, attempts, usage, and a hash-chained journal of it all.

Knows nothing of lease rules, gates or commands; imports `core`, `system`, `database` and `store.url`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Ledger


def open_for(store_url: str | None = None) -> Ledger:
    """The ledger that belongs to a store; its database is opened at the first use."""
    from .location import open_for

    return open_for(store_url)
