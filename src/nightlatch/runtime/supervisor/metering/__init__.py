"""The supervisor's side of the gateway: what is left, who may call, what was used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....core.job import Job
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ..run.spending import Spending
    from ..socket.listener import Listener
    from .door import Door


def open_door(
    job: Job,
    lease: Lease,
    ledger: Ledger,
    writer: Writer,
    spending: Spending,
    environment: Mapping[str, str],
    listener: Listener,
) -> Door:
    """Start the gateway for one attempt. `environment`: as the command would have it without."""
    from .accounts import Accounts
    from .door import Door

    accounts = Accounts(spending, listener.item_caps, lease, ledger, writer, used=listener.metered)
    listener.is_metered = lambda: accounts.metered > 0
    return Door(accounts, environment, lease=lease, settings={"prices": {}, "ceiling": None, "allow": {}})
