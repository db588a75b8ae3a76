"""nightlatch usage"""

from __future__ import annotations

from ..core.units import UNITS
from ..observe.usage_report import report
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader, since_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.records import Usage

_PURPOSE = f"""\
What runs have used: {", ".join(UNITS)}. For each job, or for each job and day, in the time zone that the
ledger was made in."""

_EXAMPLES = """\
  nightlatch usage
  nightlatch usage --job articles --since 7d --by day
  nightlatch usage --json"""


def main(argv: list[str]) -> int:
    parser = Parser("usage", _PURPOSE, _EXAMPLES)
    parser.add_argument("--job", metavar="NAME", help="of this job only")
    parser.add_argument("--since", metavar="TIME", default="30d", help="how far to look back (default 30d)")
    parser.add_argument("--by", metavar="WHAT", choices=["job", "day"], default="job", help="job (default) or day")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args(argv)
    reader = open_reader(args.store, listing=True)
    used = report(reader, job=args.job, since=since_of(args.since), by_day=args.by == "day")
    if args.json:
        for facts in used.facts():
            print_json(facts)
        return 0
    if not used.rows:
        print(f"nothing was used in the last {args.since}")
        return 0
    head = ["day", "job"] if used.by_day else ["job"]
    rows = [[*([one.day] if used.by_day else []), one.job, *_shown(one)] for one in used.rows]
    for line in screen.columns([[*head, *UNITS], *rows], elastic=()):
        print(line)
    return 0


def _shown(usage: Usage) -> list[str]:
    return [format(amount, UNITS[unit].table) for unit, amount in usage.by_unit().items()]
