"""nightlatch retry"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import InDoubt, RunEnded
from ..ledger import open_for
from ..observe.run_views import facts, start
from ..runtime.supervisor.afterwards import lapse
from .arguments import Parser
from .decisions import title, undecidable, who
from .json_out import print_json
from .reading import open_reader

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
    reader = open_reader(args.store)
    run = reader.run(args.run)
    if reader.status(run) == lapse.LAPSED:
        raise InDoubt(
            f"{title(run)} has lapsed: its holder is gone, and it may have acted. Look, then: "
            f"{advice.command('resolve', run.id)}"
        )
    try:
        again = open_for(reader.url).retry(run.id, who())
    except RunEnded as ended:
        raise undecidable(ended) from None
    if args.json:
        print_json(facts(again, again.status))
        return 0
    if run.status == statuses.WAITING:
        holder = printable(str(run.holder))
        print(f"{title(run)} is due: {holder} begins attempt {run.attempt + 1} within seconds. If that is gone:")
    else:
        print(f"{title(run)} is pending; attempt {run.attempt + 1} begins when its key is named again:")
    print(f"  {advice.text(start(reader, again))}")
    if again.command:
        print(f"it was: {printable(again.command)}")
    return 0
