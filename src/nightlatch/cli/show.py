"""nightlatch show"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core import advice, duration, statuses
from ..core.effects import BEGUN, IN_DOUBT, STORE_WIDE
from ..core.passwords import hide_password
from ..core.printable import printable
from ..errors import UsageError
from ..ledger.effects import Effect
from ..ledger.records import Attempt
from ..observe import open_decisions, run_facts
from ..observe.details import Details, details, newest_plan
from ..observe.open_decisions import OpenDecision
from ..observe.timeline import Event
from ..runtime.shared.plan import Plan
from ..runtime.supervisor.afterwards import lapse
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader
from .run_table import colour_of

_PURPOSE = """\
Show one run: its attempts, its timeline from the journal, what was refused, the end of its output, and what to
type next. For a job, show its newest run; for an effect (nightlatch once), its state. Nothing is changed.

With --plan, show the effects that the job's newest dry-run found: `planned` would be done; `done` would not be done
again; `in-doubt` and `begun` wait for a probe, a person, or the run that is doing it."""

_EXAMPLES = """\
  nightlatch show 7k3f
  nightlatch show posts                      # the job's newest run
  nightlatch show posts --plan
  nightlatch show invoice/2026-117          # an effect, by its key
  nightlatch show 7k3f --json | jq .timeline"""

_EFFECT_FIELDS = ("scope", "key", "status", "attempt", "command", "exit_code", "result", "reason", "began", "changed")
_WIDE = 110  # columns from which an attempt fits into one line
_TIMELINE_LINES = 40  # lines of a timeline; --json has every entry
_TRACEBACK_LINES = 60  # last lines of a traceback
_LONGEST_LINE = 400  # characters of a command, or of a line of output


def main(argv: list[str]) -> int:
    parser = Parser("show", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id; or a job")
    parser.add_flag("--plan", "show the job's newest dry-run")
    parser.add_flag("--json", "print one JSON object")
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = reader.ledger.run(args.run) or reader.ledger.newest(args.run)
    job = run.job if run else args.run
    plan = newest_plan(reader, job)
    if args.plan and not plan:
        raise UsageError(f"there is no plan of {printable(job)!r}: the .dry_run() of a Python job makes one")
    if plan and (args.plan or not run):
        return _print_plan(plan, args.json)
    if not run and (undecided := open_decisions.elsewhere(reader, args.run)):
        return _print_elsewhere(undecided, args.json)
    if not run and (effects := reader.ledger.effects.with_key(args.run)):
        return _print_effects(effects, args.json)
    if not run:
        hint = f"{advice.command('runs')} lists them"
        where = printable(hide_password(reader.url))
        raise UsageError(f"there is neither a run nor a job nor an effect {printable(args.run)!r} in {where}: {hint}")
    view = details(reader, run)
    if args.json:
        print_json(view.facts())
    else:
        _show(view)
    return 0


def _show(view: Details) -> None:
    print(f"{printable(view.title)}: {screen.paint(view.status, colour_of(view.status))}")
    screen.print_facts(_lines(view))
    _section("attempts", _attempts(view.attempts))
    _section("calls to models", _calls(view))
    _section("timeline", _events(view.timeline))
    _section("refused", _events(view.refused))
    _section("end of the output", _quoted(_without_traceback(view.traceback, view.tail)))
    _section("traceback", _quoted(view.traceback[-_TRACEBACK_LINES:]))
    _section("items", _items(view))
    _section("refused starts of the job", _refused_starts(view))
    _section("elsewhere", [f"  {_decision_line(one)}" for one in view.elsewhere])
    _section("next", [f"  {advice.text(choice)}" for choice in view.choices])


def _print_effects(found: list[Effect], json: bool) -> int:
    for effect in found:
        where = () if effect.scope == STORE_WIDE else ("--scope", effect.scope)
        if json:
            print_json({"version": 1, **{name: getattr(effect, name) for name in _EFFECT_FIELDS}})
            continue
        print(f"effect {printable(effect.key)}: {screen.paint(effect.status, screen.BOLD)}")
        lines = [
            ("scope", effect.scope if where else ""),
            ("command", screen.cut(printable(effect.command), _LONGEST_LINE)),
            ("reason", effect.reason),
            ("exit code", "" if effect.exit_code is None else str(effect.exit_code)),
            ("began", f"{screen.moment(effect.began)}, attempt {effect.attempt}"),
            ("changed", screen.moment(effect.changed)),
            ("result", effect.result.strip()),
            ("next", advice.command("resolve", effect.key, *where) if effect.status in (BEGUN, IN_DOUBT) else ""),
        ]
        screen.print_facts(lines)
    return 0


def _print_elsewhere(undecided: Iterable[OpenDecision], json: bool) -> int:
    """Print the open decisions of a job that only other machines have worked on."""
    for one in undecided:
        if json:
            print_json(one.facts())
        else:
            print(_decision_line(one))
    return 0


def _decision_line(decision: OpenDecision) -> str:
    return f"{printable(decision.sentence)}. {advice.text(decision.resolve())}"


def _print_plan(plan: Plan, json: bool) -> int:
    if json:
        print_json(plan.facts())
        return 0
    print(f"dry-run of {plan.job} {screen.moment(plan.at)}: {screen.paint(plan.status, screen.BOLD)}")
    steps = f"{plan.steps} done, none recorded"
    screen.print_facts([("key", plan.key), ("reason", plan.reason), ("steps", steps)])
    cells = [
        [
            effect.status,
            printable(effect.key),
            "" if effect.scope == STORE_WIDE else f"scope {printable(effect.scope)}",
            printable(effect.reason),
        ]
        for effect in plan.effects
    ]
    more = [f"  … and {plan.left_out} more"] if plan.left_out else []
    _section("effects", [*screen.columns(cells, elastic=(3,)), *more] or ["  none"])
    return 0


def _quoted(lines: Iterable[str]) -> list[str]:
    return ["  | " + screen.cut(printable(line), _LONGEST_LINE) for line in lines]


def _without_traceback(trace: Sequence[str], tail: Sequence[str]) -> Sequence[str]:
    """The end of the output. If it ends with the traceback, that is left out."""
    length = min(len(trace), len(tail))
    return tail[: len(tail) - length] if length and list(tail[-length:]) == list(trace[-length:]) else tail


def _events(events: Sequence[Event]) -> list[str]:
    cells = [[screen.local(event.at), event.sentence] for event in events[-_TIMELINE_LINES:]]
    lines = [screen.cut(line, max(screen.width(), 60)) for line in screen.columns(cells, elastic=())]
    earlier = len(events) - len(cells)
    return [f"  … {earlier} earlier: --json has all of them", *lines] if earlier else lines


def _items(view: Details) -> list[str]:
    """A batch's items: how many are in each status, and what to type about those that need a decision."""
    if not view.items:
        return []
    cells = [
        [one.status, f"{one.count}, such as {one.key}", one.reason, advice.text(one.resolve())]
        for one in view.undecided_items
    ]
    counts = ", ".join(f"{count} {status}" for status, count in sorted(view.items.items()))
    return [f"  {counts}", *screen.columns(cells, elastic=(2,))]


def _refused_starts(view: Details) -> list[str]:
    cells = [[screen.local(one.last), printable(run_facts.refused_times(one))] for one in view.refused_starts]
    return [screen.cut(line, max(screen.width(), 60)) for line in screen.columns(cells, elastic=())]


def _lines(view: Details) -> list[tuple[str, str]]:
    run, status = view.run, view.status
    ended = f"{screen.moment(run.ended)}, took {duration.show(run.elapsed)}" if run.ended and run.attempt else ""
    return [
        ("key", run.key),
        ("slot", run.slot),
        ("command", screen.cut(printable(run.command), _LONGEST_LINE)),
        ("reason", view.reason),
        ("exit code", "" if run.exit_code is None else str(run.exit_code)),
        ("holder", str(run.holder) if status in (statuses.RUNNING, lapse.LAPSED) else ""),
        ("host", run.host),
        ("opened", screen.moment(run.created)),
        ("started", screen.moment(run.started) if run.started else ""),
        ("ended", ended if run.status not in statuses.OPEN else ""),
        ("due", screen.moment(run.due) if run.due else ""),
        ("progress", view.progress),
        ("usage", run.usage.show()),
        ("cancel", f"requested by {run.cancel}" if run.cancel else ""),
    ]


def _attempts(attempts: Sequence[Attempt]) -> list[str]:
    """On a narrow screen, an attempt's holder and reason are on a second line."""
    narrow = screen.width() < _WIDE
    cells = [
        [
            str(attempt.attempt),
            attempt.status,
            screen.moment(attempt.started),
            f"took {duration.show(attempt.elapsed)}" if attempt.ended else "",
            f"token {attempt.token}",
            *([] if narrow else [attempt.reason, str(attempt.holder)]),
        ]
        for attempt in attempts
    ]
    lines = screen.columns(cells, elastic=() if narrow else (5,))
    if not narrow:
        return lines
    below = [f"     {': '.join(filter(None, (str(one.holder), printable(one.reason))))}" for one in attempts]
    return [line for pair in zip(lines, below, strict=True) for line in pair]


def _calls(view: Details) -> list[str]:
    cells = [
        [printable(model), printable(agent), kind, used.show() or "usd=0"] for model, agent, kind, used in view.calls
    ]
    return screen.columns(cells, elastic=(0,))


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print("\n" + screen.paint(title, screen.BOLD))
        print("\n".join(lines))
