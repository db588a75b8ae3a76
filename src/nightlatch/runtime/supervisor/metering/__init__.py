"""The supervisor's side of the gateway: what is left, which calls may be made, what was used."""

from __future__ import annotations

from ....config import place
from ....core.metering.price import DOLLAR
from ....system.durable import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....core.job import Job
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ..run.spending import Spending
    from ..socket.listener import Listener
    from .gateway_process import GatewayProcess


def open_gateway(
    job: Job,
    lease: Lease,
    ledger: Ledger,
    writer: Writer,
    spending: Spending,
    environment: Mapping[str, str],
    listener: Listener,
    folder: str,
) -> GatewayProcess:
    """Open the gateway for one attempt. `environment`: the command's, before the gateway is put into it. `folder`: the
    run's."""
    from .accounts import Accounts
    from .gateway_process import GatewayProcess

    private_folder(folder)
    accounts = Accounts(spending, listener.item_caps, lease, ledger, writer, used=listener.metered, folder=folder)
    listener.is_metered, listener.on_spent = lambda: accounts.is_metering, accounts.spent
    found = place.settings(job.file, "prices", "gateway")
    gateway = found.get("gateway", {})
    settings = {
        "prices": found.get("prices", {}),
        "ceiling": gateway.get("ceiling"),
        "allow": {path: round(usd * DOLLAR) for path, usd in gateway.get("allow", {}).items()},
    }
    return GatewayProcess(accounts, environment, lease=lease, folder=folder, settings=settings)
