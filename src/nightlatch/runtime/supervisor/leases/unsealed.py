"""If a gate cannot be sealed, nothing is started: the lease is released, and acquired again for another try. After a
few tries the run needs a person, and its reason names the gate and what to type."""

from __future__ import annotations

import sys

from ....core import statuses
from ....errors import Error, GateUnreachable, RunEnded
from ....ledger import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow

TRIES = 5
PAUSE = 1.0  # seconds at most before the second try; doubles, so that a server may restart meanwhile


def waits(ledger: Ledger, run: RunRow) -> bool:
    """Does the run wait for a gate to be repaired? Its work has not begun, so there is nothing to decide."""
    if run.status != statuses.NEEDS_ATTENTION:
        return False
    last = ledger.journal.last_link(run)
    return last is not None and last.kind == kinds.NEEDS_ATTENTION


def back_off(number: int, why: Error) -> bool:
    """Wait before the next try, without the lease: a machine that reaches the gate may take it. False: give up."""
    if number == TRIES or not isinstance(why, GateUnreachable):
        return False
    from .. import backoff

    print(f"nightlatch: not started yet (try {number} of {TRIES}): {why}", file=sys.stderr)
    backoff.pause(number, base=PAUSE)
    return True


def record(ledger: Ledger, run: RunRow, why: Error, by: str) -> RunRow:
    """Record that the run needs a person.

    If an earlier holder died in the middle of the work, only a holder that has sealed may end that attempt: the run is
    shown as lapsed, with a note in its timeline, and `why` is raised.
    """
    try:
        return ledger.decisions.attention(run.id, f"not started: {why}", by)
    except RunEnded:
        ledger.journal.note(run.job, kinds.UNSEALED, run=run.id, reason=why, by=by)
        raise why from None
