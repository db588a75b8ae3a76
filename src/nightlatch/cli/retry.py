"""nightlatch retry"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..ledger.ledger import Ledger
from ..observe.run_views import facts, start
from . import verdict_line
from .configured import for_run as configured
from .decisions import decide, named_run, title
from .json_out import print_json
from .reading import open_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.job import Job

_PURPOSE = """\
Allow another attempt of a run that failed, was cancelled or needs attention: it is pending again. One that waits
for its next try is due at once, and its tries are counted from the beginning.

A job of nightlatch.toml is started at once, as by `nightlatch run`. Any other is not: a supervisor that waits to make
the next try makes it within seconds; otherwise the next start with the same key makes the attempt, by the cron line
that did before or by the command that is printed. The recorded command is for reading only: it lacks the quoting,
environment and bounds, and a guess could do something else."""


def main(argv: list[str]) -> int:
    args, reader, run = named_run("retry", _PURPOSE, argv)
    job = None if args.store or run.status == statuses.WAITING else configured(run)
    again = decide(reader, run, Ledger.retry)
    if job:
        return _start(job, reader.url, args.json)
    if args.json:
        print_json(facts(again, again.status))
        return 0
    if run.status == statuses.WAITING:
        holder = printable(str(run.holder))
        print(f"{title(run)} is due: {holder} begins attempt {run.attempt + 1} within seconds. If it is gone:")
    else:
        print(f"{title(run)} is pending; to begin attempt {run.attempt + 1}, start it with its key:")
    print(f"  {advice.text(start(reader, again))}")
    if again.command:
        print(f"it was: {printable(again.command)}")
    return 0


def _start(job: Job, store: str, as_json: bool) -> int:
    from ..runtime.supervisor.start import start as start_run

    ended = start_run(job, store=store, report=verdict_line.show)
    verdict_line.show(ended)
    if as_json:
        found = open_reader(store).run(ended.run)
        print_json(facts(found, found.status))
    return ended.exit_code
