"""nightlatch retry"""

from __future__ import annotations

from ..core import states
from ..core.printable import printable
from ..errors import InDoubt, RunEnded
from ..runtime.supervisor.afterwards import lapse
from .arguments import Parser
from .desk import Desk, facts, print_json, title, undecidable, who

_PURPOSE = """\
Allow another attempt of a run that failed, was cancelled or needs attention: it is pending again. One that waits
for its next try is due at once, and its tries are counted from the beginning.

It starts nothing by itself. A supervisor that waits to make the next try makes it within seconds; otherwise the
next start of its key makes the attempt: the cron line that did before, or the command that is printed. The recorded
command is for reading: its quoting, environment and bounds are not in it, and a guess could do something else."""


def main(argv: list[str]) -> int:
    parser = Parser("retry", _PURPOSE, "  nightlatch retry 7k3f")
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    args = parser.parse_args(argv)
    desk = Desk(args.store)
    run = desk.find(args.run)
    if desk.state(run) == lapse.LAPSED:
        raise InDoubt(
            f"{title(run)} has lapsed: its holder is gone, and it may have acted. Look, then: "
            f"{desk.command('resolve', run.id)}"
        )
    try:
        again = desk.ledger.retry(run.id, who())
    except RunEnded as ended:
        raise undecidable(ended) from None
    if args.json:
        print_json(facts(again, again.state))
        return 0
    if run.state == states.WAITING:
        holder = printable(str(run.holder))
        print(f"{title(run)} is due: {holder} begins attempt {run.attempt + 1} within seconds. If that is gone:")
    else:
        print(f"{title(run)} is pending; attempt {run.attempt + 1} begins when its key is named again:")
    print(f"  {desk.start(again)}")
    if again.command:
        print(f"it was: {printable(again.command)}")
    return 0
