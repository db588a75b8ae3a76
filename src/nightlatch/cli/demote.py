"""nightlatch demote"""

from __future__ import annotations

from ..core import stage as stages
from ..errors import UsageError
from .arguments import Parser
from .stage_change import change, named_job, report

_PURPOSE = """\
Move a job one stage down: from unattended to supervised, or from supervised to manual. Its clean runs so far no longer
count. A job is demoted automatically after a run in doubt, and when it has stalled or exceeded its own budget twice
in a row."""


def main(argv: list[str]) -> int:
    parser = Parser("demote", _PURPOSE, "  nightlatch demote articles --reason 'the site has moved'")
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the journal")
    parser.add_flag("--json", "print the job's stage as JSON")
    args = parser.parse_args(argv)
    reader, job, row = named_job(args.store, args.job)
    was = stages.of(row, job.stage)
    if was == stages.MANUAL:
        raise UsageError(f"{args.job} is manual: there is no stage below that")
    stage = stages.down(was)
    change(reader, job, was, stage, why=args.reason or "demoted by hand")
    return report(job, stage, was, as_json=args.json)
