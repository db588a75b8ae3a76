"""nightlatch runs"""

from __future__ import annotations

import sys

from ..errors import UsageError
from ..observe.run_views import STATUSES, recent
from . import run_table
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader, since_of

_PURPOSE = """\
List the runs, the most recently changed first. `lapsed` means that the run's holder is gone and no other process has
taken over."""

_EXAMPLES = """\
  nightlatch runs --since 24h
  nightlatch runs --job articles --status failed
  nightlatch runs --status lapsed
  nightlatch runs --json | jq -r 'select(.usage.usd > 1) | .run'"""


def main(argv: list[str]) -> int:
    parser = Parser("runs", _PURPOSE, _EXAMPLES)
    parser.add_argument("--job", metavar="NAME", help="only runs of this job")
    parser.add_argument("--status", metavar="STATUS", choices=STATUSES, help=f"one of {', '.join(STATUSES)}")
    parser.add_argument("--since", metavar="TIME", help="runs changed within this time (24h, 7d), or since this day")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most N runs (default 50)")
    parser.add_flag("--json", "one JSON object per run")
    args = parser.parse_args(argv)
    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: give a number of at least 1")
    reader = open_reader(args.store, listing=True)
    views = recent(reader, job=args.job, status=args.status, since=since_of(args.since), limit=args.limit + 1)
    if args.json:
        for one in views[: args.limit]:
            print_json(one.facts())
    else:
        print("\n".join(run_table.lines(views[: args.limit])) or "no such runs")
    if len(views) > args.limit:
        print(f"nightlatch: there are more: --limit {args.limit * 2} shows them", file=sys.stderr)
    return 0
