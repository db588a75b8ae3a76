"""nightlatch status, and `nightlatch` alone"""

from __future__ import annotations

import sys

from .. import exits
from ..core import advice
from ..core.printable import printable
from ..observe.overview import Overview, overview
from ..observe.reader import NoStore
from . import run_table, screen
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader, since_of

_PURPOSE = """\
The last night in one screen: what needs you first, then what runs, waits and is done.

Each row ends in the command to type. What is in doubt, needs attention or has lapsed stays here until
somebody decides; the rest is of the last 24 hours. Looking changes nothing, and makes
no store."""

_EXAMPLES = """\
  nightlatch
  nightlatch status --since 7d
  nightlatch status --exit-code || notify-send 'Nightlatch: something needs you'
  nightlatch status --json"""

_SHOWN = {"needs you": 15, "running": 10, "waiting": 5, "done": 10}  # how many rows of each


def main(argv: list[str]) -> int:
    parser = Parser("status", _PURPOSE, _EXAMPLES)
    parser.add_argument("--since", metavar="TIME", default="24h", help="how far to look back (default 24h)")
    parser.add_argument(
        "--exit-code", action="store_true", help="print nothing and exit with 0 unless something needs you: then 1"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    since = since_of(args.since)
    try:
        reader = open_reader(args.store, listing=True)
    except NoStore as error:
        if args.json and not error.exit_code:
            print_json(Overview(since=since).facts())
        raise
    seen = overview(reader, since)
    needed = args.exit_code and not seen.nothing_needs_you
    if args.exit_code and not needed and not seen.unreachable and not args.json:
        return 0
    if args.json:
        print_json(seen.facts())
    elif seen.empty:
        _show_nothing(args.since, reader.ledger_is_per_machine)
    else:
        _show(seen, args.since)
    if seen.unreachable:
        print(f"nightlatch: what other machines have begun is not shown: {seen.unreachable}", file=sys.stderr)
    return exits.FAILED if needed else 0


def _show_nothing(since: str, ledger_is_per_machine: bool) -> None:
    print(f"nothing needs you, nothing runs, and nothing ran in the last {since}.")
    print(f"Start something: {advice.command('run', 'NAME', '--', rest='CMD …')}; all commands: nightlatch --help")
    if ledger_is_per_machine:
        leases = advice.command("lease", "list")
        print(f"With such a store each machine records its own runs. What runs now: {leases}")


def _show(seen: Overview, since: str) -> None:
    if seen.nothing_needs_you:
        print(screen.paint("nothing needs you", screen.GREEN) + "\n")
    besides = seen.decisions_besides_runs
    first = besides[: _SHOWN["needs you"]]
    groups = {name: g for name, g in seen.groups.items() if g.runs or (first and name == "needs you")}
    shown = {name: group.runs[: _SHOWN[name]] for name, group in groups.items()}
    # Together, so that columns align.
    lines = iter(run_table.lines([run for runs in shown.values() for run in runs], first))
    if seen.overdue:
        print(screen.paint(f"overdue ({len(seen.overdue)})", screen.BOLD))
        for row in seen.overdue[: _SHOWN["needs you"]]:
            print(f"  {row.job}: due {screen.moment(row.next_due)}, and no machine has claimed it: nightlatch serve")
        print()
    for row in seen.demoted:
        why, again = (row.change or {}).get("why"), advice.command("promote", row.job)
        name = screen.paint(f"demoted: {printable(row.job)}", screen.BOLD)
        print(f"{name} is {row.stage}, since {why}. Earn it again, then: {again}\n")
    for row in seen.earned:
        print(f"{printable(row.job)} has earned its next stage: {advice.command('promote', row.job)}\n")
    for number, (name, group) in enumerate(groups.items()):
        others = len(besides) if name == "needs you" else 0
        count = f"{len(group.runs) + others}{'+' if group.capped else ''}"
        print(("\n" if number else "") + screen.paint(f"{name} ({count})", screen.BOLD))
        for _ in (*shown[name], *(first if others else ())):
            print(next(lines))
        if others > len(first):
            rest = others - len(first)
            print(f"  … {rest} more effects, items and runs elsewhere: {advice.command('status', '--json')}")
        if more := len(group.runs) - len(shown[name]):
            print(f"  … {more} more: {advice.command('runs', '--since', since)}")
