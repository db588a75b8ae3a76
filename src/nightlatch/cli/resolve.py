"""nightlatch resolve"""

from __future__ import annotations

from ..core import advice, duration, effects
from ..core.advice import Advice
from ..core.effects import STORE_WIDE
from ..core.printable import printable
from ..errors import InDoubt, RunEnded, UsageError
from ..ledger import open_for
from ..ledger.records import RunRow
from ..observe import open_decisions
from ..observe.open_decisions import OpenDecision
from ..observe.reader import NEEDS_DECISION, StoreReader
from ..observe.run_views import facts, start
from ..runtime.supervisor.afterwards import decide
from ..runtime.supervisor.batches.batch import resolve
from ..system.identity import person
from . import screen
from .arguments import Namespace, Parser
from .decisions import run_of_job, title
from .json_out import print_json
from .only_people import require_person
from .reading import open_reader

_PURPOSE = """\
Decide the outcome of something in doubt: a run that is in doubt, needs attention or was left behind by its
holder (lapsed), an effect in doubt (nightlatch once), or an item of a batch that failed, is in doubt or was set aside.
First check in the outside world what it really did.

done     it did its work: no machine does it again
failed   it did not: the next start with its key makes another attempt
again    try it again, whatever it did; a run is pending until then
give-up  for an item of a batch: set it aside for good. It is not done, and not tried again until you say `again`

If the store has a run's key as done (its end, or a decision, was cut short), only `done` is accepted.

WHAT is a run, the beginning of its id, or its job; or the key of an effect, of an item, or of a run that another
machine began and this one has no record of. If several things match, a command for each is printed. Without OUTCOME,
the known facts and the choices are printed. The journal records your name. The command takes a lease for a moment:
that of the batch or the effect; for a run, that of its job, but only if the outcome is `done`, the run has lapsed, or
the store is a git store."""

_EXAMPLES = """\
  nightlatch resolve 7k3f
  nightlatch resolve 7k3f done
  nightlatch resolve 7k3f again --wait 10m
  nightlatch resolve invoice/2026-117 done
  nightlatch resolve example.org/hello again --batch posts
  nightlatch resolve example.org/tides give-up --batch posts
  nightlatch resolve --all again --batch posts"""

_OUTCOMES = (*decide.OUTCOMES, effects.GIVE_UP)
_CHOICES = (
    ("done", "it did its work"),
    ("failed", "it did not, and may be tried again"),
    ("again", "try it again, whatever it did"),
)


def main(argv: list[str]) -> int:
    parser = Parser("resolve", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch resolve WHAT [OUTCOME] [options]\n       nightlatch resolve --all OUTCOME --batch NAME"
    parser.add_argument("what", metavar="WHAT", help="a run, or the key of an effect or of a batch's item")
    parser.add_argument(
        "outcome", metavar="OUTCOME", nargs="?", choices=_OUTCOMES, help="done, failed, again or give-up"
    )
    parser.add_argument("--batch", metavar="NAME", default="", help="the batch that the item is in")
    parser.add_flag("--all", "with --batch, instead of WHAT: all items that need a decision")
    parser.add_argument("--job", metavar="NAME", default="", help="the job whose run has the key")
    parser.add_argument("--scope", metavar="NAME", default="", help="the scope that the effect is in")
    parser.add_argument(
        "--wait", metavar="TIME", default="5s", help="how long to wait for the lease if it is held (default 5s)"
    )
    parser.add_flag("--json", "print the decision as JSON")
    args = parser.parse_args(argv)
    args.__dict__.update(wait=duration.parse(args.wait, what="--wait"))
    if args.all and (not args.batch or args.outcome or args.what not in _OUTCOMES):
        raise UsageError(f"--all is used as in {advice.command('resolve', '--all', 'again', '--batch', 'NAME')}")
    reader = open_reader(args.store)
    unscoped = not (args.batch or args.scope or args.job)
    run = reader.ledger.run(args.what) if unscoped else None
    if args.all or args.outcome:
        require_person(f"resolve {args.what}", args.batch or args.job or (run.job if run else ""), args.store)
    if args.all:
        return _decide_all(reader, args)
    found = open_decisions.named(reader, args.what, scope=args.scope, batch=args.batch, job=args.job)
    if args.job and not found:
        run = reader.ledger.find(args.job, args.what)
    if not found and not run and unscoped:
        run = run_of_job(reader, args.what, NEEDS_DECISION)
    run_waits = run is not None and reader.status(run) in NEEDS_DECISION
    if args.outcome == effects.GIVE_UP and not args.batch and not any(case.batch for case in found):
        raise UsageError(f"{effects.GIVE_UP} is for an item of a batch: name the batch, --batch NAME")
    if len(found) + run_waits > 1:
        raise _several(args.what, found, run if run_waits else None)
    if found:
        return _decide(reader, found[0], args)
    if run:
        return _decide_run(reader, run, args)
    return _decide_elsewhere(reader, args)


def _decide(reader: StoreReader, case: OpenDecision, args: Namespace) -> int:
    if not args.outcome:
        why = printable(case.reason) or "check in the outside world what it did"
        choices = [(case.resolve(word), what) for word, what in _CHOICES]
        if case.batch:
            choices.append((case.resolve(effects.GIVE_UP), "set it aside for good"))
        waiting = sum(other.count for other in open_decisions.items(reader, batch=case.batch)) if case.batch else 0
        if waiting > 1:
            all_items = advice.to("resolve", "--all", "again", "--batch", case.batch)
            choices.append((all_items, f"decide all {waiting} open items of the batch"))
        return _offer(f"{printable(case.title)} is {case.status}: {why}", choices, case.facts() if args.json else None)
    status = decide.resolve_open(
        case.key, args.outcome, person(), of_batch=case.batch, job=case.job, scope=case.scope, began=case.changed,
        store=reader.store, where=reader.url, wait=args.wait,
    )  # fmt: skip
    if args.json:
        print_json({**case.facts(), "status": status})
    else:
        print(f"{printable(case.title)} is {status}" + (": the next start does it" if status == effects.FAILED else ""))
    return 0


def _decide_all(reader: StoreReader, args: Namespace) -> int:
    outcome = args.what
    for key in resolve(args.batch, "", outcome, by=person(), store=reader.url, wait=args.wait):
        if args.json:
            print_json(
                {"version": 1, "batch": args.batch, "key": key, "status": effects.resolution(outcome, of_item=True)}
            )
        else:
            print(f"{printable(key)}: {outcome}")
    return 0


def _decide_elsewhere(reader: StoreReader, args: Namespace) -> int:
    """If each machine has its own ledger, an effect that another machine began may be known to the store only."""
    what, scope = args.what, args.scope or STORE_WIDE
    known = None if args.batch or args.job else reader.ledger.effects.find(scope, what)
    if known:
        raise UsageError(f"the effect {printable(what)} is {known.status}: there is nothing to resolve")
    subject = f"neither a run nor an effect nor an item {what}"
    if args.batch or args.job:
        subject = (
            f"no item {what} of the batch {args.batch}" if args.batch else f"no run of {args.job} with the key {what}"
        )
    look = f"To see what needs one: {advice.command('status')}; all runs: {advice.command('runs')}"
    nothing = f"{printable(subject)} needs a decision. {look}"
    if args.batch and args.outcome:  # an item that failed or was given up is not an open decision, but can be decided
        try:
            return _decide(reader, OpenDecision(key=what, status="", changed=0.0, batch=args.batch), args)
        except UsageError as error:
            raise UsageError(f"{error}. {look}") from None
    if args.batch or args.job or not args.outcome:
        raise UsageError(nothing)
    from ..runtime.shared.effect_records import resolve

    try:
        effect = resolve(what, args.outcome, by=person(), scope=scope, store=reader.url, wait=args.wait)
    except UsageError:
        raise UsageError(nothing) from None
    print(f"the effect {printable(what)} is {effect.status}")
    return 0


def _several(what: str, found: list[OpenDecision], run: RunRow | None) -> UsageError:
    # `whole` names the scope even of a store-wide effect: without it that command would match several again.
    each = [*([advice.to("resolve", run.id)] if run else []), *(case.resolve(whole=True) for case in found)]
    return UsageError(f"several things named {printable(what)!r} need a decision: " + "; ".join(map(advice.text, each)))


def _decide_run(reader: StoreReader, run: RunRow, args: Namespace) -> int:
    status = reader.status(run)
    if status not in NEEDS_DECISION:
        look = advice.command("show", run.id)
        raise UsageError(f"{title(run)} is {status}: there is nothing to resolve. Look: {look}")
    if not args.outcome:
        lapsed = (
            "its holder is gone, and nobody has taken over. "
            "If you start it again with the same command, it continues or becomes in doubt"
        )
        reason = printable(run.reason) if run.status == status else lapsed
        first = (advice.to("show", run.id), "look at it first")
        choices = [first, *((advice.to("resolve", run.id, word), what) for word, what in _CHOICES)]
        sentence = f"{title(run)} is {status}: {reason or 'nobody knows whether it acted'}"
        return _offer(sentence, choices, facts(run, status) if args.json else None)
    try:
        decided = decide.resolve(
            run, args.outcome, person(), ledger=open_for(reader.url), store=reader.store, wait=args.wait
        )
    except RunEnded as ended:
        raise UsageError(str(ended)) from None  # another decision came first
    if args.json:
        print_json(facts(decided, decided.status))
    elif args.outcome == decide.DONE:
        print(f"{title(run)} is succeeded, and its key is done: it is not done again")
    else:
        print(f"{title(run)} is {decided.status}; the next attempt: {advice.text(start(reader, decided))}")
    return 0


def _offer(sentence: str, choices: list[tuple[Advice, str]], known: dict[str, object] | None) -> int:
    """Print the choices, or `known` as JSON. Returns the exit code.

    Each choice is a whole line to paste: in `done|failed|again` a shell would see pipes.
    """
    if known is not None:
        print_json({**known, "outcomes": list(decide.OUTCOMES)})
        return InDoubt.exit_code
    print(sentence)
    for line in screen.columns([[advice.text(command), what] for command, what in choices], elastic=()):
        print(line)
    return InDoubt.exit_code
