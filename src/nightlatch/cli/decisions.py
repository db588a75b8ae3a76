"""Shared by the commands with which a person decides about a run."""

from __future__ import annotations

from collections.abc import Callable

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import InDoubt, RunEnded, UsageError
from ..ledger import open_for
from ..ledger.decisions import Decisions
from ..ledger.records import RunRow
from ..observe import run_views
from ..observe.reader import StoreReader
from ..runtime.supervisor.afterwards import lapse
from ..system.identity import person
from .arguments import Namespace, Parser
from .reading import open_reader

_RUNS_SEARCHED = 200  # newest runs of a job that are searched when the job is named instead of a run


def title(run: RunRow) -> str:
    return printable(run_views.title(run))


def run_parser(command: str, purpose: str, examples: str, *, which: str = "newest") -> Parser:
    """The parser of a command about one run. `which`: the run that a job's name means, for the help."""
    parser = Parser(command, purpose, examples)
    parser.add_argument("run", metavar="RUN", help=f"the run or the beginning of its id; or a job, for its {which} run")
    parser.add_flag("--json", "print the run as JSON")
    return parser


def named_run(parser: Parser, argv: list[str], among: tuple[str, ...] = ()) -> tuple[Namespace, StoreReader, RunRow]:
    """The arguments, the reader, and the run that is named. A job's name means its run with a status in `among`; if it
    has none, its newest run."""
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = reader.ledger.run(args.run) or run_of_job(reader, args.run, among) or reader.run(args.run)
    if reader.status(run) == lapse.LAPSED:
        # No holder is left to see the decision: it would apply to the next attempt instead.
        raise InDoubt(
            f"{title(run)} has lapsed: its holder {run.holder} is gone, and it may have acted. Look, then: "
            f"{advice.command('resolve', run.id)}"
        )
    return args, reader, run


def run_of_job(reader: StoreReader, job: str, among: tuple[str, ...]) -> RunRow | None:
    """The run that a job's name means; None if there is no such job. Raises `UsageError` if several are possible."""
    found = [run for run in reader.ledger.history.runs(job=job, limit=_RUNS_SEARCHED) if not run.parent]
    candidates = [run for run in found if reader.status(run) in among]
    if len(candidates) > 1:
        ids = ", ".join(run.id for run in candidates)
        raise UsageError(f"{printable(job)} has {len(candidates)} such runs: name one of {ids}")
    return candidates[0] if candidates else found[0] if found else None


def decide(reader: StoreReader, run: RunRow, verb: Callable[[Decisions, str, str], RunRow]) -> RunRow:
    """Apply the decision `verb` and return the run. If the run has ended, raises: with exit code 76 if it needs another
    decision, else 64."""
    try:
        return verb(open_for(reader.url).decisions, run.id, person())
    except RunEnded as ended:
        if statuses.needs_person(ended.run.status):
            raise
        raise UsageError(str(ended)) from None
