"""nightlatch status, and `nightlatch` alone"""

from __future__ import annotations

from ..core import states
from ..runtime import lapse
from . import screen
from .arguments import Parser
from .desk import ASKING, FAILED, Desk, facts, print_json, since_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Run

    Seen = tuple[Run, str]

_PURPOSE = """\
The last night in one screen: what needs you first, then what runs, waits and is done.

Each row ends in the command to type. What is in doubt, needs attention or has lapsed stays here until
somebody decides; the rest is of the last 24 hours. Looking changes nothing."""

_MOST = 1000  # runs that are looked at: no night's screen scans years
_OPEN_MOST = 50
_GROUPS = {"needs you": 15, "running": 10, "waiting": 5, "done": 10}  # and how many rows are shown


def main(argv: list[str]) -> int:
    parser = Parser("status", _PURPOSE, "  nightlatch\n  nightlatch status --since 7d\n  nightlatch status --json")
    parser.add_argument("--since", metavar="TIME", default="24h", help="how far to look back (default 24h)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    desk = Desk(args.store)
    since = since_of(args.since)
    groups, capped = _look(desk, since)
    if args.json:
        told = {name.replace(" ", "_"): [facts(*seen) for seen in group] for name, group in groups.items()}
        print_json({"version": 1, "since": since, "capped": capped, **told})
    else:
        _show(desk, groups, args.since, capped)
    return 0


def _look(desk: Desk, since: float | None) -> tuple[dict[str, list[Seen]], bool]:
    """The groups in their order, the newest first; and whether there is more than was looked at."""
    open_or_asking = [
        run for state in (*states.ASKING, *states.OPEN) for run in desk.ledger.runs(state=state, limit=_OPEN_MOST)
    ]
    recent = list(desk.ledger.runs(since=since, limit=_MOST))
    known = {run.id for run in open_or_asking}
    ended = [run for run in recent if run.id not in known and run.state in states.TERMINAL]
    seen = [(run, desk.state(run)) for run in open_or_asking] + [(run, run.state) for run in ended]
    groups: dict[str, list[Seen]] = {name: [] for name in _GROUPS}
    for run, state in seen:
        groups[_group(state)].append((run, state))
    groups["needs you"].sort(key=lambda one: _URGENCY.index(one[1]))
    return groups, len(recent) == _MOST


_URGENCY = (states.IN_DOUBT, states.NEEDS_ATTENTION, lapse.LAPSED, *FAILED)


def _group(state: str) -> str:
    if state in ASKING or state in FAILED:
        return "needs you"
    if state == states.RUNNING:
        return "running"
    return "waiting" if state in states.OPEN else "done"


def _show(desk: Desk, groups: dict[str, list[Seen]], since: str, capped: bool) -> None:
    if not any(groups.values()):
        print(f"nothing needs you, nothing runs, and nothing ran in the last {since}.")
        print(f"Start something: {desk.command('run NAME -- CMD …')}; all commands: nightlatch --help")
        return
    for number, (name, group) in enumerate((name, group) for name, group in groups.items() if group):
        count = f"{len(group)}{'+' if capped else ''}"
        print(("\n" if number else "") + screen.paint(f"{name} ({count})", screen.BOLD))
        most = _GROUPS[name]
        print("\n".join(desk.rows(group[:most])))
        if len(group) > most:
            print(f"  … {len(group) - most} more: {desk.command('runs --since', since)}")
    if not groups["needs you"]:
        print("\nnothing needs you")
