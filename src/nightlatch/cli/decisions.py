"""What the commands share by which a person decides something about a run."""

from __future__ import annotations

from ..core import statuses
from ..core.printable import printable
from ..errors import Error, RunEnded, UsageError
from ..observe import run_views
from ..system import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.records import RunRow


def who() -> str:
    """Who is deciding, for the journal."""
    return f"{identity.user()}@{identity.host()}"


def title(run: RunRow) -> str:
    return printable(run_views.title(run))


def undecidable(error: RunEnded) -> Error:
    """What cannot be decided: 76 when it waits for a person in another way, else 64."""
    return error if statuses.needs_person(error.run.status) else UsageError(str(error))
