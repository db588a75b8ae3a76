"""Hold a lease while a command runs: supervisor, warden, command."""

from __future__ import annotations

from ....core import duration
from ....core.model import check_name
from ....core.value import value
from ....errors import LeaseLost
from ....store import url
from ....system.warden_messages import Ended, NotStarted, Report
from ..supervision import Supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ....core.protocols import Gate


@value(frozen=True, kw_only=True)
class CommandOutcome:
    """How a supervised command ended."""

    exit_code: int  # the command's, 128 + N if signal N ended it, or one of Nightlatch's
    message: str = ""  # what a person should know beyond the exit code


def supervise(
    name: str,
    argv: list[str],
    *,
    store: str | None = None,
    ttl: str | None = None,
    wait: str = "0s",
    gates: Collection[str] = (),
) -> CommandOutcome:
    """Run `argv` under the lease `name`; returns when nothing of it is left. Raises Busy if the lease is held.

    `gates` are paths or URLs; they are sealed before the command starts, as are all gates registered under the name.

    Needs its own process, as `Supervision` does.
    """
    check_name(name)
    where, wait_seconds = url.resolve(store), duration.parse(wait, what="wait")
    scheme = url.scheme_of(where)
    # A large database driver is loaded after the warden is forked, which does not need it.
    connected = None if scheme and scheme.large else url.connect(where)
    with Supervision(argv, connected.folder if connected else url.folder_of(where)) as supervision:
        connected = connected or url.connect(where)
        from ...shared.leases.lease import ttl_seconds

        seconds, declared = ttl_seconds(ttl, connected), _gates(gates)
        supervision.hold(connected, name, ttl=seconds, wait=wait_seconds, gates=declared)
        # Nightlatch commands in the command must use the same store.
        supervision.start(supervision.environment() | supervision.store_environment(store))
        report = supervision.last_report()
    if supervision.lost:
        return CommandOutcome(exit_code=LeaseLost.exit_code, message=f"{supervision.lost}. {argv[0]} was ended")
    return _outcome(argv[0], report)


def _gates(targets: Collection[str]) -> list[Gate]:
    if not targets:
        return []
    from ....gates import at

    return [at(target) for target in targets]


def _outcome(command: str, report: Report) -> CommandOutcome:
    match report:
        case Ended():
            message = f"{command} {report.leftovers}" if report.leftovers else ""
            return CommandOutcome(exit_code=report.exit_code, message=message)
        case NotStarted():
            return CommandOutcome(exit_code=report.exit_code, message=report.reason)
    return CommandOutcome(exit_code=125, message=f"the warden was killed; {command} and all it had started were ended")
