"""nightlatch promote"""

from __future__ import annotations

from ..core import advice
from ..core import stage as stages
from ..errors import NotAllowed, UsageError
from ..observe import evidence
from . import screen
from .arguments import Parser
from .json_out import print_json
from .only_people import require_person
from .stage_change import change, meaning, named_job

_PURPOSE = """\
One stage up: from manual to supervised, from supervised to unattended. It prints the evidence. If some is missing, it
says what, changes nothing and exits with 77.

It takes clean runs in this stage under the definition in force (1 as manual, 3 as supervised, or what promote_after
says): succeeded at the first attempt, nothing left behind, approved where they were held. Besides: nothing in doubt or
in need of attention, no refused stale write, a timeout, and a budget where its usage is metered. As supervised only
its slots count. --force promotes it all the same; the journal says so."""


def main(argv: list[str]) -> int:
    parser = Parser("promote", _PURPOSE, "  nightlatch promote articles\n  nightlatch promote articles --force")
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_argument("--force", action="store_true", help="without the evidence")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the journal")
    parser.add_argument("--json", action="store_true", help="print the job's stage as JSON")
    args = parser.parse_args(argv)
    require_person(f"promote {args.job}", args.job, args.store)
    reader, job, row = named_job(args.store, args.job)
    was = stages.of(row, job.stage)
    if was == stages.UNATTENDED:
        raise UsageError(f"{args.job} is unattended: there is no stage above that")
    found = evidence.findings(reader, row, job)
    missing = [one.sentence for one in found if not one.good]
    if not args.json:
        for one in found:
            print(f"  {screen.paint('+', screen.GREEN) if one.good else screen.paint('-', screen.RED)} {one.sentence}")
    if missing and not args.force:
        force = advice.command("promote", args.job, "--force")
        raise NotAllowed(f"{args.job} stays {was}: {'; '.join(missing)}. Promote it all the same: {force}")
    stage = stages.up(was)
    why = args.reason or "; ".join(one.sentence for one in found if one.good)
    change(reader, job, was, stage, why=why, forced=bool(missing))
    if args.json:
        print_json({"version": 1, "job": args.job, "stage": stage, "was": was, "forced": bool(missing), "why": why})
    else:
        print(f"{args.job} is {stage} now: {meaning(job, stage)}")
    return 0
