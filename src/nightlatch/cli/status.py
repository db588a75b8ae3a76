"""nightlatch status, and `nightlatch` alone"""

from __future__ import annotations

import sys

from ..core import states
from ..runtime.supervisor.afterwards import lapse
from ..store import url
from . import asking, screen
from .arguments import Parser
from .desk import ASKING, FAILED, Desk, NoStore, facts, is_overdue, print_json, since_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Run

    Seen = tuple[Run, str]

_PURPOSE = """\
The last night in one screen: what needs you first, then what runs, waits and is done.

Each row ends in the command to type. What is in doubt, needs attention or has lapsed stays here until
somebody decides; the rest is of the last 24 hours. Looking changes nothing, and makes
no store."""

_MOST = 200  # runs of one state that are looked at: no night's screen scans years
_GROUPS = {"needs you": 15, "running": 10, "waiting": 5, "done": 10}  # and how many rows are shown


def main(argv: list[str]) -> int:
    parser = Parser("status", _PURPOSE, "  nightlatch\n  nightlatch status --since 7d\n  nightlatch status --json")
    parser.add_argument("--since", metavar="TIME", default="24h", help="how far to look back (default 24h)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    since = since_of(args.since)
    try:
        desk = Desk(args.store, listing=True)
    except NoStore as error:
        if args.json and not error.exit_code:
            _print_json(since, {name: [] for name in _GROUPS}, set(), [], [])
        raise
    groups, capped = _look(desk, since)
    waiting, elsewhere = asking.everything(desk), asking.elsewhere(desk)
    if args.json:
        _print_json(since, groups, capped, waiting, None if desk.unreachable else elsewhere)
    else:
        _show(desk, groups, args.since, capped, [*elsewhere, *waiting])
    if desk.unreachable:
        print(f"nightlatch: what other machines have begun is not shown: {desk.unreachable}", file=sys.stderr)
    return 0


def _print_json(
    since: float | None,
    groups: dict[str, list[Seen]],
    capped: set[str],
    waiting: list[asking.Asking],
    elsewhere: list[asking.Asking] | None,
) -> None:
    told = {name.replace(" ", "_"): [facts(*seen) for seen in group] for name, group in groups.items()}
    effects, items = ([one.facts() for one in waiting if bool(one.batch) == of_batch] for of_batch in (False, True))
    others = None if elsewhere is None else [one.facts() for one in elsewhere]  # None: the store did not answer
    also = {"effects": effects, "items": items, "elsewhere": others}
    print_json({"version": 1, "since": since, "capped": sorted(capped), **told, **also})


def _look(desk: Desk, since: float | None) -> tuple[dict[str, list[Seen]], set[str]]:
    """The groups in their order, the newest first; and the names of those that have more than was looked at.

    State by state: a failure is not hidden by the thousand successes after it.
    """
    groups: dict[str, list[Seen]] = {name: [] for name in _GROUPS}
    capped = set()
    for state in states.ALL:
        within = since if states.is_terminal(state) else None  # what is open stays until it is decided
        runs = list(desk.ledger.runs(state=state, since=within, limit=_MOST))
        for run in runs:
            shown = desk.state(run)
            groups["needs you" if is_overdue(run) or _shut_down(desk, run) else _group(shown)].append((run, shown))
        if len(runs) == _MOST:
            capped.add(_group(state))
    for group in groups.values():
        group.sort(key=lambda seen: -seen[0].changed)
    groups["needs you"].sort(key=lambda seen: _URGENCY.index(seen[1]) if seen[1] in ASKING else len(_URGENCY))
    return groups, capped


_URGENCY = (states.IN_DOUBT, states.NEEDS_ATTENTION, lapse.LAPSED)


def _shut_down(desk: Desk, run: Run) -> bool:
    """Ended between two tries, and not by a person: nobody may know that it is not done."""
    if run.state != states.CANCELLED or run.cancel or not run.attempt:
        return False
    return desk.ledger.attempts(run.id)[-1].state != states.CANCELLED


def _group(state: str) -> str:
    if state in ASKING or state in FAILED:
        return "needs you"
    if state == states.RUNNING:
        return "running"
    return "waiting" if state in states.OPEN else "done"


def _show(
    desk: Desk, groups: dict[str, list[Seen]], since: str, capped: set[str], waiting: list[asking.Asking]
) -> None:
    if not any(groups.values()) and not waiting:
        print(f"nothing needs you, nothing runs, and nothing ran in the last {since}.")
        print(f"Start something: {desk.command('run NAME -- CMD …')}; all commands: nightlatch --help")
        if url.ledger_of(desk.url) == url.OF_EACH_MACHINE:
            print(f"With such a store each machine records its own runs. Who works now: {desk.command('lease list')}")
        return
    if not groups["needs you"] and not waiting:
        print(screen.paint("nothing needs you", screen.GREEN) + "\n")
    first = [one.cells(desk) for one in waiting[: _GROUPS["needs you"]]]
    shown = {name: group[: _GROUPS[name]] for name, group in groups.items() if group or (first and name == "needs you")}
    # Together, so that columns align.
    rows = iter(desk.rows([seen for group in shown.values() for seen in group], first))
    for number, (name, group) in enumerate(shown.items()):
        besides = len(waiting) if name == "needs you" else 0
        count, more = len(groups[name]) + besides, len(groups[name]) - len(group)
        print(("\n" if number else "") + screen.paint(f"{name} ({count}{'+' if name in capped else ''})", screen.BOLD))
        for _ in (*group, *(first if besides else ())):
            print(next(rows))
        if besides > len(first):
            print(f"  … {besides - len(first)} more effects, items and runs elsewhere: {desk.command('status --json')}")
        if more:
            print(f"  … {more} more: {desk.command('runs --since', since)}")
