"""nightlatch resolve"""

from __future__ import annotations

from ..core import duration
from ..core.effects import STORE_WIDE
from ..core.printable import printable
from ..errors import InDoubt, RunEnded, UsageError
from ..runtime.afterwards import decide
from . import asking, screen
from .arguments import Parser
from .desk import ASKING, Desk, facts, print_json, title, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Run
    from .arguments import Namespace
    from .asking import Asking

_PURPOSE = """\
Say what became of what nobody knows about: a run that is in doubt, needs attention or was left behind by its
holder (lapsed), an effect in doubt (nightlatch once), or an item of a batch that is in doubt or was set aside.
Look first: only the world outside knows what it did.

done     it did its work: no machine does it again
failed   it did not: whoever names its key next makes another attempt
again    the same, whatever became of it; a run is pending until then

WHAT is a run, or the beginning of its id, or the key of an effect, an item, or a run that another machine began
and this one has no record of. If several go by it, the commands that name each are printed. Without an outcome,
what is known of it and the choices are. Who decided is in the journal. The lease is needed for a moment, of the
batch or the effect, and of the job for `done`, for a run that has lapsed, and for every run on a git store."""

_EXAMPLES = """\
  nightlatch resolve 7k3f
  nightlatch resolve 7k3f done
  nightlatch resolve 7k3f again --wait 10m
  nightlatch resolve invoice/2026-117 done
  nightlatch resolve example.org/hello again --batch posts"""

_CHOICES = (
    ("done", "it did its work"),
    ("failed", "it did not, and may be tried again"),
    ("again", "the same, whatever became of it"),
)


def main(argv: list[str]) -> int:
    parser = Parser("resolve", _PURPOSE, _EXAMPLES)
    parser.add_argument("what", metavar="WHAT", help="a run, or the key of an effect or of a batch's item")
    parser.add_argument("outcome", metavar="OUTCOME", nargs="?", choices=decide.OUTCOMES, help="done, failed or again")
    parser.add_argument("--batch", metavar="NAME", default="", help="the batch that has the item")
    parser.add_argument("--job", metavar="NAME", default="", help="the job whose run has the key")
    parser.add_argument("--scope", metavar="NAME", default="", help="the scope that has the effect")
    parser.add_argument("--wait", metavar="TIME", default="5s", help="for the lease, while it is held (default 5s)")
    parser.add_argument("--json", action="store_true", help="print what was decided as JSON")
    args = parser.parse_args(argv)
    args.__dict__.update(wait=duration.parse(args.wait, what="--wait"))
    desk = Desk(args.store)
    found = asking.named(desk, args.what, scope=args.scope, batch=args.batch, job=args.job)
    run = None if args.batch or args.scope or args.job else desk.ledger.run(args.what)
    if args.job and not found:
        run = desk.ledger.find(args.job, args.what)
    waiting = run is not None and desk.state(run) in ASKING
    if len(found) + waiting > 1:
        raise _several(desk, args.what, found, run if waiting else None)
    if found:
        return _decide(desk, found[0], args)
    if run:
        return _decide_run(desk, run, args)
    return _decide_elsewhere(desk, args)


def _decide(desk: Desk, one: Asking, args: Namespace) -> int:
    if not args.outcome:
        why = printable(one.reason) or "only the world outside knows more"
        choices = [(one.command(desk, word), what) for word, what in _CHOICES]
        waiting = sum(other.count for other in asking.everything(desk) if one.batch and other.batch == one.batch)
        if waiting > 1:
            choices.append(
                (desk.command("batch", one.batch, "--resolve again"), f"all {waiting} of the batch that wait")
            )
        return _ask(f"{one.title} is {one.state}: {why}", choices, one.facts() if args.json else None)
    state = asking.decide(one, args.outcome, who(), store=desk.url, wait=args.wait)
    if args.json:
        print_json({**one.facts(), "state": state})
    else:
        print(f"{one.title} is {state}" + ("" if state == "done" else ": the next start does it"))
    return 0


def _decide_elsewhere(desk: Desk, args: Namespace) -> int:
    """With a ledger on each machine, only the store may know of an effect that another machine has begun."""
    what, scope = args.what, args.scope or STORE_WIDE
    known = None if args.batch or args.job else desk.ledger.effects.find(scope, what)
    if known:
        raise UsageError(f"the effect {printable(what)} is {known.state}: there is nothing to resolve")
    where = f"neither a run nor an effect nor an item {what}"
    if args.batch or args.job:
        where = (
            f"no item {what} of the batch {args.batch}" if args.batch else f"no run of {args.job} with the key {what}"
        )
    look = f"What does: {desk.command('status')}; all runs: {desk.command('runs')}"
    nothing = f"{printable(where)} waits for a decision. {look}"
    if args.batch or args.job or not args.outcome:
        raise UsageError(nothing)
    from ..runtime.effects.book import resolve

    try:
        effect = resolve(what, args.outcome, by=who(), scope=scope, store=desk.url, wait=args.wait)
    except UsageError:
        raise UsageError(nothing) from None
    print(f"the effect {printable(what)} is {effect.state}")
    return 0


def _several(desk: Desk, what: str, found: list[Asking], run: Run | None) -> UsageError:
    # An effect of the whole store needs its scope here, or it would stay one of several.
    commands = [*([desk.command("resolve", run.id)] if run else []), *(one.command(desk, whole=True) for one in found)]
    return UsageError(f"several wait for a decision under {printable(what)!r}: " + "; ".join(commands))


def _decide_run(desk: Desk, run: Run, args: Namespace) -> int:
    state = desk.state(run)
    if state not in ASKING:
        raise UsageError(f"{title(run)} is {state}: there is nothing to resolve. Look: {desk.command('show', run.id)}")
    if not args.outcome:
        lapsed = "its holder is gone, and nobody has taken over. Started again as it was, it goes on by itself, or asks"
        reason = printable(run.reason) if run.state == state else lapsed
        look = (desk.command("show", run.id), "look at it first")
        choices = [look, *((desk.command("resolve", run.id, word), what) for word, what in _CHOICES)]
        said = f"{title(run)} is {state}: {reason or 'nobody knows whether it acted'}"
        return _ask(said, choices, facts(run, state) if args.json else None)
    try:
        decided = decide.resolve(run, args.outcome, who(), ledger=desk.ledger, store=desk.store, wait=args.wait)
    except RunEnded as ended:
        raise UsageError(str(ended)) from None  # another was faster
    if args.json:
        print_json(facts(decided, decided.state))
    elif args.outcome == decide.DONE:
        print(f"{title(run)} is succeeded, and its key is done: nobody does it again")
    else:
        print(f"{title(run)} is {decided.state}; the next attempt: {desk.start(decided)}")
    return 0


def _ask(said: str, choices: list[tuple[str, str]], known: dict[str, object] | None) -> int:
    """Nothing is decided yet. Each choice is a line of its own: a | would be a pipe to a shell."""
    if known is not None:
        print_json({**known, "outcomes": list(decide.OUTCOMES)})
        return InDoubt.exit_code
    print(said)
    for line in screen.columns([list(choice) for choice in choices], elastic=()):
        print(line)
    return InDoubt.exit_code
