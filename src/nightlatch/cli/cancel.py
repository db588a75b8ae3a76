"""nightlatch cancel"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import RunEnded, UsageError
from ..ledger import open_for
from ..ledger.decisions import Decisions
from ..observe.run_views import facts
from ..runtime.supervisor.run import approval
from .decisions import decide, named_run, run_parser, title
from .json_out import print_json

_PURPOSE = """\
End a run, from any machine that shares its ledger.

A run that has not begun, or that waits for its next try or for an approval, is cancelled at once; a result that waits
for approval is then never published. The supervisor of an active run sees the request within seconds, sends the command
SIGTERM, kills it after its grace time (--grace, 10s by default), and exits with 120. The key is not done: the next
start makes another attempt. Cancelling twice changes nothing."""

_EXAMPLES = """\
  nightlatch cancel 7k3f
  nightlatch cancel articles     # the job's open run"""


def main(argv: list[str]) -> int:
    args, reader, run = named_run(run_parser("cancel", _PURPOSE, _EXAMPLES, which="open"), argv, statuses.OPEN)
    ledger = open_for(reader.url)
    try:
        cancelled = approval.cancel(reader.store, ledger, run, lambda: decide(reader, run, Decisions.request_cancel))
    except RunEnded as ended:
        if statuses.needs_person(ended.run.status):
            raise
        raise UsageError(f"{ended}. Look: {advice.command('show', run.id)}") from None
    if args.json:
        print_json(facts(cancelled, cancelled.status))
        return 0
    if cancelled.status == statuses.RUNNING:
        print(
            f"{title(run)} is asked to end: {printable(str(cancelled.holder))} finds the request within seconds, and "
            f"ends the command after its grace time. Watch: {advice.command('logs', '-f', run.id)}"
        )
    else:
        why = "no other try is made" if run.attempt else "it had not begun"
        if run.held is not None or run.approved:
            why = "nothing of its plan is published"
        print(f"{title(run)} is cancelled: {why}. To try again: {advice.command('retry', run.id)}")
    return 0
