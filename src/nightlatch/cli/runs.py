"""nightlatch runs"""

from __future__ import annotations

import sys

from ..core import states
from ..errors import UsageError
from ..runtime.supervisor.afterwards import lapse
from .arguments import Parser
from .desk import SHOWN, Desk, facts, print_json, since_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..ledger.model import Run

_PURPOSE = """\
The runs, the newest change first. `lapsed` is a run whose holder is gone and that nobody has taken over."""

_MOST = 10**9  # more than any store has, and less than a database cannot count to

_EXAMPLES = """\
  nightlatch runs --since 24h
  nightlatch runs --job articles --state failed
  nightlatch runs --state lapsed
  nightlatch runs --json | jq -r 'select(.usage.usd > 1) | .run'"""


def main(argv: list[str]) -> int:
    parser = Parser("runs", _PURPOSE, _EXAMPLES)
    parser.add_argument("--job", metavar="NAME", help="of this job only")
    parser.add_argument("--state", metavar="STATE", choices=SHOWN, help=f"one of {', '.join(SHOWN)}")
    parser.add_argument("--since", metavar="TIME", help="changed within this time, as in 24h or 7d")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default 50)")
    parser.add_argument("--json", action="store_true", help="one JSON object a run")
    args = parser.parse_args(argv)
    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: give a number of at least 1")
    desk = Desk(args.store, listing=True)
    recorded = states.RUNNING if args.state == lapse.LAPSED else args.state
    found = desk.ledger.runs(job=args.job, state=recorded, since=since_of(args.since), limit=min(args.limit, _MOST) + 1)
    seen = [(run, state) for run, state in _seen(desk, found) if args.state in (None, state)]
    if args.json:
        for run, state in seen[: args.limit]:
            print_json(facts(run, state))
    else:
        print("\n".join(desk.rows(seen[: args.limit])) or "no such runs")
    if len(seen) > args.limit:
        print(f"nightlatch: there are more: --limit {args.limit * 2} shows them", file=sys.stderr)
    return 0


def _seen(desk: Desk, runs: Iterator[Run]) -> Iterator[tuple[Run, str]]:
    return ((run, desk.state(run)) for run in runs)
