"""nightlatch promote"""

from __future__ import annotations

from ..core import advice
from ..core import stage as stages
from ..errors import NotAllowed, UsageError
from ..observe import evidence
from . import screen
from .arguments import Parser
from .only_people import require_person
from .stage_change import change, named_job, report

_PURPOSE = """\
Move a job one stage up: from manual to supervised, or from supervised to unattended. The command prints
the evidence. If some is missing, it says what, changes nothing and exits with 77.

The job needs clean runs in its current stage and definition: 1 as manual, 3 as supervised, or as promote_after says. A
clean run succeeded at the first attempt, left no process behind, and was approved if it was held. There must also be no
run in doubt or in need of attention and no refused stale write; and the job must have a timeout, and a budget if its
usage is metered. As supervised, only scheduled runs count. --force promotes without the evidence; the journal records
that."""


def main(argv: list[str]) -> int:
    parser = Parser("promote", _PURPOSE, "  nightlatch promote articles\n  nightlatch promote articles --force")
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_flag("--force", "promote without the evidence")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the journal")
    parser.add_flag("--json", "print the job's stage as JSON")
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
        raise NotAllowed(f"{args.job} stays {was}: {'; '.join(missing)}. Promote it anyway: {force}")
    stage = stages.up(was)
    why = args.reason or "; ".join(one.sentence for one in found if one.good)
    change(reader, job, was, stage, why=why, forced=bool(missing))
    return report(job, stage, was, as_json=args.json, forced=bool(missing), why=why)
