"""nightlatch unpause"""

from __future__ import annotations

from ..core.row import NEVER
from ..ledger import open_for
from ..observe.slots import JobLine
from ..scheduler.people import JobSlots
from ..store import url
from ..system.identity import person
from . import screen
from .arguments import Parser
from .json_out import print_json
from .only_people import require_person
from .reading import existing_url

_PURPOSE = """\
End a job's pause. The job continues with its next slot; slots that came due during the pause stay skipped."""


def main(argv: list[str]) -> int:
    parser = Parser("unpause", _PURPOSE, "  nightlatch unpause articles")
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_flag("--json", "print the job as JSON")
    args = parser.parse_args(argv)
    where = existing_url(args.store)
    require_person(f"unpause {args.job}", args.job, args.store)
    row = JobSlots(url.connect(where), open_for(where), args.job, person()).unpause()
    if args.json:
        print_json(JobLine(row=row, last=None, overdue=False, skipped=0.0).facts())
    elif row.next_due < NEVER:
        print(f"{args.job} is unpaused: its next slot is {screen.moment(row.next_due)}")
    else:
        print(f"{args.job} is unpaused; it has no schedule, so it is only run by hand")
    return 0
