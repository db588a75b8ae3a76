"""nightlatch cancel"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..ledger.ledger import Ledger
from .decisions import decide, title

_PURPOSE = """\
Ask for the end of a run, from any machine that shares its ledger.

A run that has not begun, or that waits for its next try, is cancelled at once. The supervisor of a running one
finds the request within seconds, ends the command after its grace time (10s unless --grace was given), and exits
with 120. The key is not done: the next start makes another attempt. Asking twice changes nothing."""


def main(argv: list[str]) -> int:
    found = decide("cancel", _PURPOSE, argv, Ledger.request_cancel)
    if found is None:
        return 0
    _, run, cancelled = found
    if cancelled.status == statuses.RUNNING:
        print(
            f"{title(run)} is asked to end: {printable(str(cancelled.holder))} finds the request within seconds, and "
            f"ends the command after its grace time. Watch: {advice.command('logs', '-f', run.id)}"
        )
    else:
        why = "no other try is made" if run.attempt else "it had not begun"
        print(f"{title(run)} is cancelled: {why}. Again: {advice.command('retry', run.id)}")
    return 0
