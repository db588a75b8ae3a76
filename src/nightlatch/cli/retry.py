"""nightlatch retry"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..ledger.ledger import Ledger
from ..observe.run_views import start
from .decisions import decide, title

_PURPOSE = """\
Allow another attempt of a run that failed, was cancelled or needs attention: it is pending again. One that waits
for its next try is due at once, and its tries are counted from the beginning.

This starts nothing by itself. A supervisor that waits to make the next try makes it within seconds; otherwise the
next start with the same key makes the attempt: the cron line that did before, or the command that is printed. The
recorded command is for reading only: it lacks the quoting, environment and bounds, and a guess could do something
else."""


def main(argv: list[str]) -> int:
    found = decide("retry", _PURPOSE, argv, Ledger.retry)
    if found is None:
        return 0
    reader, run, again = found
    if run.status == statuses.WAITING:
        holder = printable(str(run.holder))
        print(f"{title(run)} is due: {holder} begins attempt {run.attempt + 1} within seconds. If it is gone:")
    else:
        print(f"{title(run)} is pending; to begin attempt {run.attempt + 1}, start it with its key:")
    print(f"  {advice.text(start(reader, again))}")
    if again.command:
        print(f"it was: {printable(again.command)}")
    return 0
