"""nightlatch pause"""

from __future__ import annotations

from ..core import advice
from ..ledger import open_for
from ..observe.slots import JobLine
from ..scheduler.people import JobSlots
from ..store import url
from ..system.identity import person
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import existing_url
from .times import moment

_PURPOSE = """\
Skip a job's slots, on every machine that shares the store, until somebody unpauses it.

An active run continues. Slots that come due during the pause are recorded as skipped and not made up for. You can
still start the job by hand: `nightlatch run JOB`."""


def main(argv: list[str]) -> int:
    parser = Parser(
        "pause",
        _PURPOSE,
        "  nightlatch pause articles --until 2d --reason 'the site moves'\n  nightlatch unpause articles",
    )
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_argument("--until", metavar="TIME", help="unpause it then: 2d, or 2026-12-01T08:00")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for other people")
    parser.add_flag("--json", "print the job as JSON")
    args = parser.parse_args(argv)
    where = existing_url(args.store)
    until = moment(args.until, "--until") if args.until else 0.0
    row = JobSlots(url.connect(where), open_for(where), args.job, person()).pause(until, args.reason)
    if args.json:
        print_json(JobLine(row=row, last=None, overdue=False, skipped=0.0).facts())
        return 0
    for_how_long = f"until {screen.moment(until)}" if until else "until you unpause it"
    print(f"{args.job} is paused {for_how_long}: {advice.command('unpause', args.job)}")
    return 0
