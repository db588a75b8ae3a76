"""nightlatch ack"""

from __future__ import annotations

from ..core import advice, statuses
from ..errors import InDoubt, UsageError
from ..ledger import open_for
from ..ledger.records import RunRow
from ..observe.overview import is_shut_down, overview
from ..observe.reader import NEEDS_DECISION, StoreReader
from ..observe.run_views import facts
from ..system.identity import person
from .arguments import Parser
from .decisions import title
from .json_out import print_json
from .reading import open_reader

_PURPOSE = """\
Mark a failed run as seen: `nightlatch` then lists it under done, no longer under what needs you.

Nothing else changes: its key is not done, and the next start makes the next attempt; if that fails too, it needs you
again. The journal records your name. For a run that is in doubt or needs attention, use `nightlatch resolve`."""

_EXAMPLES = """\
  nightlatch ack 7k3f
  nightlatch ack 7k3f 9qz2
  nightlatch ack articles        # the job's newest run
  nightlatch ack --all           # every failed run that `nightlatch` shows"""


def main(argv: list[str]) -> int:
    parser = Parser("ack", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch ack RUN…\n       nightlatch ack --all"
    parser.add_argument("run", metavar="RUN", nargs="*", help="a run, the beginning of its id, or a job")
    parser.add_flag("--all", "every failed run that needs you")
    parser.add_flag("--json", "print each run as JSON")
    args = parser.parse_args(argv)
    if bool(args.run) == args.all:
        raise UsageError(f"name the runs that you have seen, or all: {advice.command('ack', '--all')}")
    reader = open_reader(args.store)
    runs = _all(reader) if args.all else [_named(reader, text) for text in args.run]
    ledger = open_for(reader.url)
    for run in runs:
        ledger.decisions.acknowledge(run, person())
        if args.json:
            print_json(facts(run, run.status))
        else:
            print(f"{title(run)}, which is {run.status}, no longer needs you")
    if not runs and not args.json:
        print("no failed run needs you")
    return 0


def _all(reader: StoreReader) -> list[RunRow]:
    return [view.run for view in overview(reader, None).needs_you.runs if _may_be_acknowledged(reader, view.run)]


def _named(reader: StoreReader, text: str) -> RunRow:
    run = reader.run_or_newest(text)
    status = reader.status(run)
    if status in NEEDS_DECISION:
        decide = advice.command("resolve", run.id)
        raise InDoubt(f"{title(run)} is {status}: it needs a decision, not only a look. Check it, then: {decide}")
    if not _may_be_acknowledged(reader, run):
        raise UsageError(f"{title(run)} is {status}: it does not need you, so there is nothing to mark as seen")
    return run


def _may_be_acknowledged(reader: StoreReader, run: RunRow) -> bool:
    return reader.status(run) in statuses.FAILURES or is_shut_down(reader, run)
