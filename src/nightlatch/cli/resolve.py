"""nightlatch resolve"""

from __future__ import annotations

from ..core import duration
from ..errors import RunEnded, UsageError
from ..runtime import decide
from . import screen
from .arguments import Parser
from .desk import ASKING, Desk, facts, print_json, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Run

_PURPOSE = """\
Decide a run that is in doubt, needs attention, or was left behind by its holder (lapsed). Look first: only
the world outside knows what it did.

done     it did its work: its key is settled in the store, and no machine does it again
failed   it did not: whoever names its key next makes another attempt
again    the same, and the run is pending until then

Who decided is in the journal. `done`, and a run that has lapsed, need the job's lease for a moment.

exit code: 0; 64 there is no such run, or nothing to resolve; 75 another run of the job holds its lease."""

_EXAMPLES = """\
  nightlatch resolve 7k3f
  nightlatch resolve 7k3f done
  nightlatch resolve 7k3f again --wait 10m"""


def main(argv: list[str]) -> int:
    parser = Parser("resolve", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    parser.add_argument("outcome", metavar="OUTCOME", nargs="?", choices=decide.OUTCOMES, help="done, failed or again")
    parser.add_argument("--wait", metavar="TIME", default="5s", help="for the job's lease, while it is held")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    args = parser.parse_args(argv)
    wait = duration.parse(args.wait, what="--wait")
    desk = Desk(args.store)
    run = desk.find(args.run)
    state = desk.state(run)
    if state not in ASKING:
        raise UsageError(
            f"run {run.id} of {run.job} is {state}: there is nothing to resolve. Look: {desk.command('show', run.id)}"
        )
    if not args.outcome:
        _ask(desk, run, state)
        return 64
    try:
        decided = decide.resolve(run, args.outcome, who(), ledger=desk.ledger, store=desk.store, wait=wait)
    except RunEnded as ended:
        raise UsageError(str(ended)) from None  # another was faster
    if args.json:
        print_json(facts(decided, decided.state))
    elif args.outcome == decide.DONE:
        print(f"run {run.id} of {run.job} is succeeded, and its key is done: nobody does it again")
    else:
        print(f"run {run.id} of {run.job} is {decided.state}; the next attempt: {desk.start(decided)}")
    return 0


def _ask(desk: Desk, run: Run, state: str) -> None:
    """What there is to decide. Each choice is a line of its own: a | would be a pipe to a shell."""
    reason = screen.harmless(run.reason) if run.state == state else "its holder is gone, and nobody has taken over"
    print(f"run {run.id} of {run.job} is {state}: {reason or 'nobody knows whether it acted'}")
    choices = (
        (desk.command("show", run.id), "look at it first"),
        (desk.command("resolve", run.id, "done"), "it did its work"),
        (desk.command("resolve", run.id, "failed"), "it did not, and may be tried again"),
        (desk.command("resolve", run.id, "again"), "the same, and it waits for its next attempt"),
    )
    for line in screen.columns([list(choice) for choice in choices], elastic=()):
        print(line)
