"""nightlatch retry"""

from __future__ import annotations

import os

from ..core import advice, statuses
from ..core.job import Job
from ..core.printable import printable
from ..core.target import Each
from ..core.value import replace
from ..errors import UsageError
from ..ledger.decisions import Decisions
from ..ledger.records import RunRow
from ..observe.reader import StoreReader
from ..observe.run_views import batch, facts, is_overdue
from ..runtime.shared import recorded_start
from ..runtime.shared.recorded_start import RecordedStart
from ..system import identity
from . import verdict_line
from .configured import for_run
from .decisions import decide, named_run, run_parser, title
from .json_out import print_json
from .reading import open_reader

_PURPOSE = """\
Make another attempt of a run that failed, was cancelled or needs attention. Its command, options and folder are taken
from the journal. A job of nightlatch.toml is started as the file defines it now.

The attempt is made here, as with `nightlatch run`, and the exit code is that of the run. If the run is waiting for its
next try, its supervisor makes that try within seconds, and the count of tries starts again. With --later nothing is
started now: the next start of its key, such as a cron line, makes the attempt. If a secret was removed from the record,
or the run is from another machine, the line to type is printed instead."""

_EXAMPLES = """\
  nightlatch retry 7k3f
  nightlatch retry 7k3f --later
  nightlatch retry 7k3f --again        # from the beginning, although it succeeded"""


def main(argv: list[str]) -> int:
    parser = run_parser("retry", _PURPOSE, _EXAMPLES)
    parser.add_flag("--later", "allow the attempt, but start nothing now")
    parser.add_flag("--again", "start from the beginning, even if it succeeded")
    args, reader, run = named_run(parser, argv)
    waits = run.status == statuses.WAITING and not is_overdue(run)
    if reader.done_elsewhere(run) and not args.again:
        raise UsageError(
            f"{title(run)} needs no retry: its key is done, on another machine. To do it once more, "
            f"{advice.command('retry', run.id, '--again')}"
        )
    recorded = recorded_start.find(reader.ledger, run)
    job = None if args.later or waits else _job(reader, run, recorded, named_store=bool(args.store))
    again = run.status == statuses.SUCCEEDED and args.again
    if again and not job:
        raise UsageError(f"{title(run)} cannot be started from here: {_why_not_started(run, recorded)}")
    allowed = run if again else decide(reader, run, Decisions.retry)
    if job:
        return _start(
            replace(job, again=args.again), recorded.folder if recorded and not job.file else "", reader.url, args.json
        )
    if args.json:
        print_json(facts(allowed, allowed.status))
    elif waits:
        print(f"{title(run)} is due: {printable(str(run.holder))} begins attempt {run.attempt + 1} within seconds")
        print(f"if that process is gone: {advice.command('retry', run.id)}")
    else:
        _print_pending(reader, run, recorded, later=args.later)
    return 0


def _job(reader: StoreReader, run: RunRow, recorded: RecordedStart | None, *, named_store: bool) -> Job | None:
    """The job to start here; None if it cannot be started here."""
    if not named_store and (job := for_run(run)):
        return job
    if not recorded or recorded.hidden or run.host != identity.host() or not os.path.isdir(recorded.folder):
        return None
    job = recorded.job
    if isinstance(job.target, Each) and not os.path.exists(os.path.join(recorded.folder, _items_file(reader, run))):
        return None
    return job


def _items_file(reader: StoreReader, run: RunRow) -> str:
    """The file with the batch's items; "-" if they came from standard input, which cannot be read again."""
    command = batch(reader, run)
    return command.words[2] if command and len(command.words) > 2 else "-"


def _start(job: Job, folder: str, store: str, as_json: bool) -> int:
    from ..runtime.supervisor.start import start as start_run

    if folder:
        os.chdir(folder)
    ended = start_run(job, store=store, report=verdict_line.show)
    verdict_line.show(ended)
    if as_json:
        found = open_reader(store).run(ended.run)
        print_json(facts(found, found.status))
    return ended.exit_code


def _print_pending(reader: StoreReader, run: RunRow, recorded: RecordedStart | None, *, later: bool) -> None:
    """Print that the run is pending, and what to type."""
    if later:
        print(f"{title(run)} is pending: the next start of its key begins attempt {run.attempt + 1}. Start it now:")
        print(f"  {advice.command('retry', run.id)}")
        return
    print(f"{title(run)} is pending, and not started: {_why_not_started(run, recorded)}. Type:")
    command = batch(reader, run) or _command_to_type(run, recorded)
    enter = f"cd {advice.quoted(recorded.folder)} && " if recorded else ""
    print(f"  {enter}{advice.text(command)}" if command else f"  {printable(run.command)}")


def _command_to_type(run: RunRow, recorded: RecordedStart | None) -> advice.Advice | None:
    words = recorded.typed() if recorded else None
    if words:
        return advice.to(*words)
    return advice.to("retry", run.id) if recorded else None


def _why_not_started(run: RunRow, recorded: RecordedStart | None) -> str:
    if not recorded:
        return "how it was started is not recorded"
    if recorded.hidden:
        return "secrets were removed from its record: replace each [NAME] in this line"
    if run.host != identity.host():
        return f"it was started on {printable(run.host)}, so start it there"
    if not os.path.isdir(recorded.folder):
        return f"its folder {printable(recorded.folder)} is gone"
    return "its items came from standard input"
