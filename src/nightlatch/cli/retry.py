"""nightlatch retry"""

from __future__ import annotations

import sys

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import InDoubt, RunEnded
from ..ledger import open_for
from ..observe.run_views import facts, start
from ..runtime.supervisor.afterwards import lapse
from .arguments import Parser
from .configured import for_run as configured
from .decisions import title, undecidable, who
from .json_out import print_json
from .reading import open_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.job import Job

_PURPOSE = """\
Allow another attempt of a run that failed, was cancelled or needs attention: it is pending again. One that waits
for its next try is due at once, and its tries are counted from the beginning.

A job of nightlatch.toml is started, as `nightlatch run` does it. Of any other nothing is started: a supervisor that
waits to make the next try makes it within seconds; otherwise the next start of its key makes the attempt, by the cron
line that did before or by the command that is printed. The recorded command is for reading: its quoting, environment
and bounds are not in it, and a guess could do something else."""


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
    job = None if args.store or run.status == statuses.WAITING else configured(run)
    try:
        again = open_for(reader.url).retry(run.id, who())
    except RunEnded as ended:
        raise undecidable(ended) from None
    if job:
        return _start(job, reader.url, args.json)
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


def _start(job: Job, store: str, as_json: bool) -> int:
    from ..runtime.supervisor.start import start as start_run

    ended = start_run(job, store=store, report=lambda tried: print(tried.line(), file=sys.stderr))
    print(ended.line(), file=sys.stderr)
    if as_json:
        found = open_reader(store).run(ended.run)
        print_json(facts(found, found.status))
    return ended.exit_code
