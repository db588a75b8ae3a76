"""What the commands share by which a person decides something about a run."""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import InDoubt, RunEnded, UsageError
from ..ledger import open_for
from ..observe import run_views
from ..runtime.supervisor.afterwards import lapse
from ..system import identity
from .arguments import Parser
from .reading import open_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..ledger.ledger import Ledger
    from ..ledger.records import RunRow
    from ..observe.reader import StoreReader
    from .arguments import Namespace


def current_user() -> str:
    """The person who decides, for the journal."""
    return f"{identity.user()}@{identity.host()}"


def title(run: RunRow) -> str:
    return printable(run_views.title(run))


def named_run(command: str, purpose: str, argv: list[str]) -> tuple[Namespace, StoreReader, RunRow]:
    """The arguments, and the run that they name."""
    parser = Parser(command, purpose, f"  nightlatch {command} 7k3f")
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = reader.run(args.run)
    if reader.status(run) == lapse.LAPSED:
        # No holder would find the decision: it would wait for the next attempt, and apply to that one.
        raise InDoubt(
            f"{title(run)} has lapsed: its holder {run.holder} is gone, and it may have acted. Look, then: "
            f"{advice.command('resolve', run.id)}"
        )
    return args, reader, run


def decide(reader: StoreReader, run: RunRow, verb: Callable[[Ledger, str, str], RunRow]) -> RunRow:
    """The run after `verb`. What cannot be decided is 76 if it needs another decision, else 64."""
    try:
        return verb(open_for(reader.url), run.id, current_user())
    except RunEnded as ended:
        if statuses.needs_person(ended.run.status):
            raise
        raise UsageError(str(ended)) from None
