"""nightlatch show"""

from __future__ import annotations

from ..core import duration, states
from ..core.effects import STORE_WIDE
from ..core.printable import printable
from ..errors import UsageError
from ..runtime.both import plan
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.leases import unsealed
from ..runtime.supervisor.run import kept
from . import asking, screen, timeline
from .arguments import Parser
from .desk import Desk, attempt_facts, colour_of, entry_facts, facts, is_overdue, print_json, progress_of, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Attempt, Entry, Run
    from ..runtime.both.plan import Plan

_PURPOSE = """\
One run: what it is, its attempts, its timeline from the journal, what was refused, the end of its output,
and what to type next. Of a job: its newest run. Looking changes nothing.

With --plan: what the job's newest dry-run found, effect by effect: `planned` would be done, `done` would not be
done again, `in-doubt` and `begun` wait for a probe, a person, or whoever is doing it."""

_EXAMPLES = """\
  nightlatch show 7k3f
  nightlatch show posts                      # the job's newest run
  nightlatch show posts --plan
  nightlatch show 7k3f --json | jq .timeline"""

_TAIL = 10  # lines of output
_LONGEST = 400  # characters of a command, or of a line of output
_LINKS = ("opened", "ended")  # on the job's chain: they point to the run's own entries


def main(argv: list[str]) -> int:
    parser = Parser("show", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id; or a job")
    parser.add_argument("--plan", action="store_true", help="the job's newest dry-run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    desk = Desk(args.store)
    run = desk.ledger.run(args.run) or desk.ledger.newest(args.run)
    job = run.job if run else args.run
    noted = desk.ledger.noted(job, plan.KIND)
    if args.plan and not noted:
        raise UsageError(f"there is no plan of {printable(job)!r}: the .dry_run() of a Python job makes one")
    if noted and (args.plan or not run):
        return _plan(plan.from_journal(job, noted), args.json)
    if not run and (left := asking.elsewhere(desk, args.run)):
        return _elsewhere(desk, left, args.json)
    if not run:
        hint = f"{desk.command('runs')} lists them"
        raise UsageError(f"there is neither a run nor a job {printable(args.run)!r}: {hint}")
    state, attempts = desk.state(run), desk.ledger.attempts(run.id)
    entries = _timeline(desk, run)
    refusals = [entry for entry in entries if entry.kind.startswith("refus")]
    tail = [line.decode(errors="replace") for line in kept.tail(kept.folder_of(desk.store.folder, run.id), _TAIL)]
    if args.json:
        print_json(
            {
                **facts(run, state),
                "attempts": [attempt_facts(attempt) for attempt in attempts],
                "timeline": [entry_facts(entry) for entry in entries],
                "refusals": [entry_facts(entry) for entry in refusals],
                "tail": tail,
                "items": desk.ledger.items.counts(run.job),
            }
        )
        return 0
    print(f"{title(run)}: {screen.paint(state, colour_of(state))}")
    for word, text in _lines(run, state):
        print(f"  {word:<9} {text}")
    _section("attempts", _attempts(attempts))
    _section("timeline", timeline.lines([entry for entry in entries if entry not in refusals]))
    _section("refused", timeline.lines(refusals))
    _section("output, its end", ["  | " + screen.cut(printable(line), _LONGEST) for line in tail])
    _section("items", _items(desk, run))
    _section("elsewhere", [_on_another(desk, one) for one in asking.elsewhere(desk, run.job)])
    _section("next", _next(desk, run, state))
    return 0


def _elsewhere(desk: Desk, left: list[asking.Asking], json: bool) -> int:
    """Of a job that only other machines have worked on."""
    if json:
        for one in left:
            print_json(one.facts())
    else:
        print("\n".join(_on_another(desk, one).strip() for one in left))
    return 0


def _on_another(desk: Desk, one: asking.Asking) -> str:
    return f"  {one.title} is {one.state}: {printable(one.reason)}. {one.command(desk)}"


def _plan(made: Plan, json: bool) -> int:
    if json:
        print_json(made.facts())
        return 0
    print(f"dry-run of {made.job} {screen.moment(made.at)}: {screen.paint(made.status, screen.BOLD)}")
    lines = [("key", made.key), ("reason", made.reason), ("steps", f"{made.steps} done, none recorded")]
    for word, text in lines:
        if text:
            print(f"  {word:<9} {printable(text)}")
    cells = [
        [
            effect.state,
            printable(effect.key),
            "" if effect.scope == STORE_WIDE else f"scope {printable(effect.scope)}",
            printable(effect.reason),
        ]
        for effect in made.effects
    ]
    more = [f"  … and {made.left_out} more"] if made.left_out else []
    _section("effects", [*screen.columns(cells, elastic=(3,)), *more] or ["  none"])
    return 0


def _items(desk: Desk, run: Run) -> list[str]:
    """Of a batch: how many there are in each state, and what to type about those that wait for a person."""
    counts = desk.ledger.items.counts(run.job)
    if not counts:
        return []
    waiting = [one for one in asking.everything(desk) if one.batch == run.job]
    cells = [
        [one.state, f"{one.count}, as {printable(one.key)}", printable(one.reason), one.command(desk)]
        for one in waiting
    ]
    return [
        "  " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())),
        *screen.columns(cells, elastic=(2,)),
    ]


def _timeline(desk: Desk, run: Run) -> list[Entry]:
    """The run's own journal, its steps, and what people and observers put on its job's."""
    # A second before it: the job's chain and the run's are stamped by two readings of the clock.
    theirs = [
        entry
        for entry in desk.ledger.job_entries(run.job, run.created - 1)
        if entry.facts.get("run") == run.id and entry.kind not in _LINKS
    ]
    mine = [*desk.ledger.entries(run.id), *desk.ledger.step_log.entries(run.id)]
    return sorted([*mine, *theirs], key=lambda entry: entry.at)


def _lines(run: Run, state: str) -> list[tuple[str, str]]:
    ended = f"{screen.moment(run.ended)}, took {duration.show(run.elapsed)}" if run.ended and run.attempt else ""
    started = screen.moment(run.started) if run.started else ""
    reason = "its holder is gone, and nobody has taken over" if state == lapse.LAPSED else printable(run.reason)
    lines = [
        ("key", printable(run.key)),
        ("slot", printable(run.slot)),
        ("command", screen.cut(printable(run.command), _LONGEST)),
        ("reason", reason),
        ("exit code", "" if run.exit_code is None else str(run.exit_code)),
        ("holder", printable(str(run.holder)) if state in (states.RUNNING, lapse.LAPSED) else ""),
        ("host", printable(run.host)),
        ("opened", screen.moment(run.created)),
        ("started", started),
        ("ended", ended if run.state not in states.OPEN else ""),
        ("due", screen.moment(run.due) if run.due else ""),
        ("progress", progress_of(run)),
        ("usage", run.usage.show()),
        ("cancel", f"asked for by {printable(run.cancel)}" if run.cancel else ""),
    ]
    return [(word, text) for word, text in lines if text]


def _attempts(attempts: list[Attempt]) -> list[str]:
    cells = [
        [
            str(attempt.attempt),
            attempt.state,
            screen.moment(attempt.started),
            f"took {duration.show(attempt.elapsed)}" if attempt.ended else "",
            f"token {attempt.token}",
            printable(attempt.reason),
            printable(str(attempt.holder)),
        ]
        for attempt in attempts
    ]
    return screen.columns(cells, elastic=(5,))


def _next(desk: Desk, run: Run, state: str) -> list[str]:
    if state in (*states.ASKING, lapse.LAPSED):
        if state == lapse.LAPSED and (batch := desk.batch(run)):
            return ["  " + batch]
        words = ["resolve", "retry"] if state == states.NEEDS_ATTENTION else ["resolve"]
        return ["  " + desk.command(word, run.id) for word in (reversed(words) if unsealed.waits(run) else words)]
    if state == states.RUNNING:
        return ["  " + desk.command("logs -f", run.id), "  " + desk.command("cancel", run.id)]
    if state in states.OPEN:
        waits = state == states.WAITING and not is_overdue(run)
        return ["  " + (desk.next(run, state) if waits else desk.start(run)), "  " + desk.command("cancel", run.id)]
    if states.may_start(state):
        return ["  " + desk.command("logs", run.id), "  " + (desk.batch(run) or desk.command("retry", run.id))]
    return ["  " + desk.command("logs", run.id)]


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print("\n" + screen.paint(title, screen.BOLD))
        print("\n".join(lines))
