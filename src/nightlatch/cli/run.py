"""nightlatch run"""

from __future__ import annotations

import os
import sys

from ..config import place
from ..core import advice, duration, options, statuses
from ..core.job import Job, unpack
from ..core.options import RUN
from ..core.target import Command, Function
from ..errors import Busy, Error, InDoubt, Stop, UsageError
from ..runtime.shared import verdict
from ..runtime.shared.job import go_home, read, with_newest_slot
from . import verdict_line
from .arguments import Namespace, Parser, split_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PURPOSE = """\
Run a command once for its key, with a timeout and a budget, and record it. Without a command, run a job of
nightlatch.toml; options given here override the file.

Only one run of NAME works at a time, among all machines that share the store. If the key is already done, nothing
is started (`skipped`, exit 0). A command that runs too long, makes no progress or uses up its budget is ended from
outside; it need not cooperate. Its output is shown and kept, with secrets removed (nightlatch logs RUN).

With --workspace the command works in a fresh folder, which is kept if it fails. With --publish its result is then
written once, through gates: a stale copy is refused, and results that a crashed run has published are not published
again."""

OPTIONS = options.rows(Job, RUN)

_EXAMPLES = """\
  nightlatch run articles --timeout 30m -- claude -p "$(cat prompt.md)"
  nightlatch run articles --slot '0 2 * * *' -- ./articles.sh       # if cron fires late or twice, it is still one slot
  nightlatch run articles                                           # as nightlatch.toml has it
  nightlatch run articles --slot last --timeout 2h                  # its newest due slot (or --slot next, or a time)
  nightlatch run report --key "$(nightlatch key sales 2026-11)" -- ./report.sh
  nightlatch run crawl --stall 10m --progress ./out -- ./crawl.sh
  nightlatch run site --workspace git --publish git -- claude -p 'Write the next article and commit it'
  nightlatch run report --workspace scratch --publish out.html=/srv/www/report.html -- "$PWD/report.sh"
  nightlatch run agent --budget usd=2,usd/day=10 -- claude -p 'Go'"""


def main(argv: list[str]) -> int:
    ours, command = split_command(argv)
    parser = Parser("run", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch run NAME [options] [-- CMD …]"
    parser.add_argument("name", metavar="NAME", help="the job; one run of it at a time")
    parser.add_options(OPTIONS.values())
    add_common(parser)
    args = parser.parse_args(ours)
    return run_job(args, lambda: _job(args, command))


def add_common(parser: Parser) -> None:
    """Options of every command that starts one run, besides the job's."""
    parser.add_argument("--verdict", metavar="FILE", help="write how it ended, or why it did not begin, as JSON")
    parser.add_flag("--held-ok", "if another process holds the lease: print nothing and exit 0, not 75")
    parser.add_flag("--quiet", verdict_line.QUIET)
    parser.add_flag("--dry-run", "say what would be done, or why nothing would; claim and start nothing")
    parser.add_argument("--packed", metavar="FILE", hidden=True)  # the job as JSON, from another Nightlatch process


def run_job(args: Namespace, make: Callable[[], Job]) -> int:
    """Start the job that `make` makes, print how it ended, and return its exit code."""
    if args.verdict and not os.access(os.path.dirname(os.path.abspath(args.verdict)), os.W_OK):
        raise UsageError(f"--verdict {args.verdict}: there is no such folder, or it cannot be written to")
    if args.verdict and os.path.isdir(args.verdict):
        raise UsageError(f"--verdict {args.verdict}: that is a folder; name a file")
    verdict_file = args.verdict and os.path.abspath(args.verdict)  # absolute, since a configured job changes the folder
    key = args.key or ""
    try:
        job = make()
        key = job.key
        if args.dry_run:
            if isinstance(job.target, Function):
                return _dry_run_function(job, args.store, verdict_file)
            return _dry_run_command(job, args.store)
        from ..runtime.supervisor.start import start

        if args.quiet:
            verdict_line.hush()
        ended = start(job, store=args.store, report=lambda tried: verdict_line.show(tried, quiet=args.quiet))
    except (Error, Stop) as error:
        if verdict_file:
            verdict.write_error(verdict_file, args.name, key, error)
        if not isinstance(error, Busy) or not (args.held_ok or args.quiet):
            raise
        if sys.stderr.isatty() and not args.quiet:  # cron mails whatever is printed
            print(f"nightlatch: {error}", file=sys.stderr)
        return 0 if args.held_ok else error.exit_code
    if verdict_file:
        verdict.write(verdict_file, ended)
    verdict_line.show(ended, quiet=args.quiet)
    if args.quiet:
        verdict_line.show_tail(ended, args.store)
    if job.file and not args.quiet:
        _print_stage(job, args.store)
    if (statuses.needs_person(ended.status) or ended.exit_code == InDoubt.exit_code) and ended.run:
        print(f"nightlatch: it needs your decision: {advice.command('show', ended.run)}", file=sys.stderr)
    return ended.exit_code


def _job(args: Namespace, command: list[str]) -> Job:
    if args.packed:
        import json

        with open(args.packed, encoding="utf-8") as file:
            return with_newest_slot(unpack(json.load(file)))
    values = args.given_values(OPTIONS)
    if not command and (config := place.find()):
        from .configured import configured_job

        return configured_job(config, args.name, values)
    job = with_newest_slot(read(args.name, Command(words=tuple(command)), values, RUN))
    print_default_timeout(args, values)
    return job


def print_default_timeout(args: Namespace, values: dict[str, object]) -> None:
    """Print the timeout that applies if none was given."""
    if "timeout" not in values and not args.dry_run and not args.quiet and sys.stderr.isatty():
        bound = OPTIONS["timeout"].written
        print(f"nightlatch: {args.name} may run for {bound}, the default without --timeout", file=sys.stderr)


def _print_stage(job: Job, store: str | None) -> None:
    """For a job that is not unattended yet, print how far it is, and the next command."""
    from ..observe.stages import sentence
    from ..runtime.supervisor.run.rows import read_row
    from ..store import url

    stage = sentence(job, read_row(url.connect(store), job.name))
    if not stage.startswith("unattended"):
        print(f"nightlatch: {job.name} is {stage}", file=sys.stderr)


def _dry_run_function(job: Job, store: str | None, verdict_file: str) -> int:
    """Run a Python job to find its effects, without doing any."""
    from ..runtime.supervisor.dry_run import dry_run

    plan = dry_run(job, store=store)
    if verdict_file:
        verdict.write(verdict_file, plan)
    if plan.reason:
        print(f"nightlatch: {plan.reason}", file=sys.stderr)
    print(f"nightlatch: {plan.summary()}. Look: {advice.command('show', job.name, '--plan')}", file=sys.stderr)
    return plan.exit_code


def _dry_run_command(job: Job, store: str | None) -> int:
    """Print whether a command would be run."""
    from ..observe.reader import NoStore
    from ..runtime.supervisor.run.preflight import Preflight
    from .reading import existing_url

    try:
        key = Preflight(job, go_home(job, existing_url(store))).look_only()
    except NoStore:
        key = job.key  # without a store, no key is done
    except Error as error:
        error.args = (f"would not run: {error}",)
        raise
    if isinstance(key, verdict.Verdict):
        done = f"by run {key.run}: {advice.command('show', key.run)}" if key.run else "on another machine"
        print(f"would skip {job.name} (key {job.key}): {key.reason}, {done}. With --again it would run")
        return 0
    bound = "none" if job.timeout is None else duration.show(job.timeout)
    print(f"would run {job.name} (key {job.key or 'made at the start'}, timeout {bound}): {job.target.shown}")
    return 0
