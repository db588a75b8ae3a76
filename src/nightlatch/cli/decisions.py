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
from .json_out import print_json
from .reading import open_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..ledger.ledger import Ledger
    from ..ledger.records import RunRow
    from ..observe.reader import StoreReader


def current_user() -> str:
    """The person who decides, for the journal."""
    return f"{identity.user()}@{identity.host()}"


def title(run: RunRow) -> str:
    return printable(run_views.title(run))


def decide(
    command: str, purpose: str, argv: list[str], verb: Callable[[Ledger, str, str], RunRow]
) -> tuple[StoreReader, RunRow, RunRow] | None:
    """Carry out `verb` on the run that the arguments name. Returns the reader and the run before and after; None if
    --json has printed it already."""
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
    try:
        decided = verb(open_for(reader.url), run.id, current_user())
    except RunEnded as ended:
        if statuses.needs_person(ended.run.status):
            raise
        raise UsageError(str(ended)) from None
    if args.json:
        print_json(run_views.facts(decided, decided.status))
        return None
    return reader, run, decided
