"""nightlatch approve"""

from __future__ import annotations

import sys

from ..core import advice, statuses
from ..core import stage as stages
from ..core.job import Job
from ..core.printable import printable
from ..errors import RunEnded, UsageError
from ..ledger import open_for
from ..ledger.records import RunRow
from ..observe import plans
from ..observe.reader import StoreReader
from ..observe.run_views import facts
from ..runtime.supervisor.run import approval
from ..runtime.supervisor.run.rows import read_row
from ..system import identity
from ..system.identity import person
from . import screen, verdict_line
from .arguments import Parser
from .configured import for_run
from .decisions import title
from .json_out import print_json
from .only_people import require_person
from .reading import open_reader

_PURPOSE = """\
Approve what a supervised job holds back: publish the result of a run, or start a run that waits for approval.

It shows you the job's stage, what the run has cost, what would be published where, and for a branch a summary of the
change (--diff: the whole change), and asks you. If you agree, exactly that is published from the run's workspace; the
command is not run again. If another run has written to a target, or the job or the workspace has changed since,
nothing is published, and the run needs attention. To reject it: nightlatch cancel RUN.

If `approve` is killed halfway, the next `approve`, `serve`, `tick` or start of the run's key completes it."""

_EXAMPLES = """\
  nightlatch approve articles
  nightlatch approve 7k3f --diff
  nightlatch approve 7k3f --yes"""


def main(argv: list[str]) -> int:
    parser = Parser("approve", _PURPOSE, _EXAMPLES)
    parser.add_argument("what", metavar="RUN|JOB", help="the run, or the job whose run is waiting")
    parser.add_flag("--diff", "show the whole change, not a summary")
    parser.add_flag("--yes", "do not ask (for scripts)")
    parser.add_flag("--json", "print the finished run as JSON")
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = plans.waiting(reader, args.what)
    require_person(f"approve {args.what}", run.job, args.store)
    if run.held is None and (not run.approved or run.status in (*statuses.NEEDS_PERSON, statuses.SUCCEEDED)):
        look = advice.command("show", run.id)
        raise UsageError(f"{title(run)} is {run.status}: it does not wait for an approval. Look: {look}")
    job = for_run(run)
    if job is None:
        raise UsageError(
            f"there is no job {printable(run.job)} in the nightlatch.toml in use here: name its file with --config"
        )
    if not args.json:
        _show(reader, run, job, whole=args.diff)
    if (
        run.held is not None
        and not args.yes
        and not screen.ask("Approve it?", "look at it, then approve it with --yes")
    ):
        print(f"nothing was published. To reject it: {advice.command('cancel', run.id)}")
        return 0
    return _approve(reader, run, job, args.json)


def _show(reader: StoreReader, run: RunRow, job: Job, *, whole: bool) -> None:
    row = read_row(reader.store, run.job)
    stage, used = stages.of(row, job.stage), run.usage.show()
    print(f"{title(run)} ({printable(run.key)}), stage {stage}" + (f", used {used}" if used else ""))
    writes = plans.writes(reader, run)
    if not writes:
        print(f"  it has not started. It would run: {printable(job.target.shown)}")
    for write in writes:
        if not write.commit:
            print(f"  {printable(write.source)} ({_bytes(write.size)}) → {printable(write.target)}")
            continue
        print(f"  commit {write.commit[:12]} → {printable(write.target)}")
        for line in plans.changes(write, whole=whole).splitlines():
            print(f"  {printable(line)}")
    for path in sorted({write.workspace for write in writes}):
        print(f"  look at it: {printable(path)}")
    if run.held is not None:
        print(f"  it waits until {screen.moment(run.held)}; then it is cancelled")


def _bytes(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.1f} GiB"


def _approve(reader: StoreReader, run: RunRow, job: Job, as_json: bool) -> int:
    from ..runtime.supervisor.start import start

    ledger, store, by = open_for(reader.url), reader.store, person()
    claim = approval.held_claim(read_row(store, run.job), run, store)
    held = claim.held if claim else None
    try:
        if not store.lists_begun:
            run = ledger.decisions.approve(run.id, run.head if run.held is not None else "", by)
        if held and held["host"] not in ("", identity.host()):
            approval.leave_approval(store, ledger, run, by)
            print(f"{title(run)} is approved: `nightlatch serve` on {printable(held['host'])} publishes it")
            return 0
        our_claim = approval.take_over(store, ledger, run, by)
        if store.lists_begun:  # each machine has its own ledger, so the shared row decides first
            run = ledger.decisions.approve(run.id, run.head if run.held is not None else "", by)
    except RunEnded as ended:
        if statuses.needs_person(ended.run.status):
            raise
        raise UsageError(str(ended)) from None
    verdict = start(job, store=reader.url, claim=our_claim, report=verdict_line.show)
    verdict_line.show(verdict)
    if as_json:
        found = open_reader(reader.url).run(run.id)
        print_json(facts(found, found.status))
    elif statuses.needs_person(verdict.status):
        print(f"nightlatch: it needs your decision: {advice.command('show', run.id)}", file=sys.stderr)
    return verdict.exit_code
