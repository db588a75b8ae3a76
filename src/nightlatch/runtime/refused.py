"""A refusal in the journal: what came too late is seen in `nightlatch show RUN` of the run it belongs to."""

from __future__ import annotations

import os

from ..errors import Error, StaleToken
from ..ledger import open_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import LeaseLost, RunEnded
    from ..ledger.ledger import Ledger


def note(
    ledger: Ledger, job: str, run: str, attempt: int, token: int, what: str, refused: StaleToken | RunEnded | LeaseLost
) -> None:
    """An observer's word: it carries no token, and changes nothing of the run. That it cannot be written must not
    hide what was refused."""
    stands = refused.stands.token if isinstance(refused, StaleToken) and refused.stands else None
    try:
        ledger.note(job, "refused", run=run, attempt=attempt, what=what, token=token, stands=stands, reason=refused)
    except Error:
        pass


def note_in_run(store: str | None, what: str, refused: StaleToken | LeaseLost) -> None:
    """From a command inside a run; elsewhere there is no run to show it."""
    told = {name: os.environ.get(f"NIGHTLATCH_{name}", "") for name in ("JOB", "RUN", "ATTEMPT", "TOKEN")}
    if all(told.values()):
        note(open_for(store), told["JOB"], told["RUN"], int(told["ATTEMPT"]), int(told["TOKEN"]), what, refused)
