"""nightlatch run"""

from __future__ import annotations

import os
import sys

from ..core import advice, duration, retry
from ..errors import Busy, Error, InDoubt, Stop, UsageError
from ..runtime.runs import verdict
from ..runtime.runs.job import Job, caps, seconds
from .arguments import Parser, split_command
from .told import store_of_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .arguments import Namespace

_PURPOSE = """\
Run a command once for its key, within bounds, recorded.

Only one run of NAME works at a time, on every machine that shares the store. A key that is done is not
done again (`skipped`, exit 0). The command is ended from outside when its time, its progress or its
budget is over; it is never asked. Its output is shown and kept (nightlatch logs RUN), secrets taken out.

With --workspace it works in a fresh folder, kept if it fails; --publish then writes its result through gates,
once: a copy that was overtaken is refused, and what a crashed one published is not published again.

exit code: the command's own; 0 with `skipped` when the key is done; 75 held by another; 76 in doubt, needs
a person; 120 cancelled, 121 over budget, 122 stalled, 123 lease lost, 124 timed out; 126/127 cannot be
executed / not found; 73 a gate refused its result, a newer holder stands there; 69 store unreachable, 64 usage,
125 Nightlatch itself failed."""

_TIMEOUT = "1h"
_PYTHON_JOB = ["-P", "-m", "nightlatch.runtime.runs.child"]  # behind the interpreter; runtime/runs/jobs.py makes it

_EXAMPLES = """\
  nightlatch run articles --timeout 30m -- claude -p "$(cat prompt.md)"
  nightlatch run articles --slot '0 2 * * *' -- ./articles.sh       # late and doubled firings agree on one slot
  nightlatch run report --key "$(nightlatch key sales 2026-11)" -- ./report.sh
  nightlatch run crawl --stall 10m --progress ./out -- ./crawl.sh
  nightlatch run site --workspace git --publish git -- claude -p 'Write the next article and commit it'
  nightlatch run report --workspace scratch --publish out.html=/srv/www/report.html -- ./report.sh
  nightlatch run agent --budget usd=2,usd/day=10 --meter output -- claude -p --output-format json 'Go'"""


def main(argv: list[str]) -> int:
    ours, command = split_command(argv)
    parser = Parser("run", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch run NAME [options] -- CMD …"
    parser.add_argument("name", metavar="NAME", help="the job; its runs exclude each other")
    parser.add_argument("--key", help="what is processed: a key that is done is not done again")
    parser.add_argument("--slot", metavar="CRON", help="the newest due time of this schedule is slot and key")
    parser.add_argument("--tz", metavar="ZONE", default="", help="the schedule's time zone (default: this machine's)")
    parser.add_argument("--ttl", metavar="TIME", help="the lease's (default 60s)")
    parser.add_argument("--wait", metavar="TIME", default="0s", help="how long to wait while it is held (default 0s)")
    parser.add_argument("--timeout", metavar="TIME", help="wall clock, or none (default 1h)")
    parser.add_argument("--stall", metavar="TIME", help="end it when progress does not advance for so long")
    parser.add_argument(
        "--progress", metavar="SOURCE", action="append", help="report, or a file or folder that changes"
    )
    parser.add_argument("--grace", metavar="TIME", default="10s", help="between asking it to end and ending it")
    parser.add_argument("--budget", metavar="CAPS", help="usd=2,usd/day=10,tokens/month=1000000")
    parser.add_argument(
        "--meter", metavar="HOW", choices=["report", "output"], help="report or output: who tells usage"
    )
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", help="for the command; may be repeated")
    parser.add_argument("--cwd", metavar="FOLDER", default="", help="where the command runs")
    parser.add_argument("--workspace", metavar="KIND", default="",
                        help="scratch, git or git:URL#branch: run it in a fresh folder")  # fmt: skip
    parser.add_argument("--publish", metavar="FROM=TO", action="append",
                        help="or git: after success, from the workspace to a file, folder/ or s3://")  # fmt: skip
    parser.add_argument("--input", metavar="FILE", action="append", help="record its sha256; may be repeated")
    parser.add_argument("--lost", metavar="POLICY", default="", choices=["again", "doubt"],
                        help="after an attempt whose holder died: again (default with --publish) or doubt")  # fmt: skip
    parser.add_argument("--keep-awake", action="store_true", help="keep the machine from sleeping while it runs")
    parser.add_argument("--retries", metavar="N", type=int, default=0, help="more attempts if it fails (default 0)")
    parser.add_argument("--backoff", metavar="TIME", default="10s", help="before the first of them; doubles (10s)")
    parser.add_argument("--again", action="store_true", help="from the beginning, although the key is done")
    parser.add_argument("--new", action="store_true", help="without a key: a new run, not the unfinished one")
    parser.add_argument("--verdict", metavar="FILE", help="write how it ended, or why it did not begin, as JSON")
    parser.add_argument(
        "--held-ok", action="store_true", help="when another holds it: exit 0 instead of 75, and quietly"
    )
    parser.add_argument("--dry-run", action="store_true",
                        help="say what would be done, or why nothing would; claim and start nothing")  # fmt: skip
    return _run(parser.parse_args(ours), command)


def _run(args: Namespace, command: list[str]) -> int:
    if args.verdict and not os.access(os.path.dirname(os.path.abspath(args.verdict)), os.W_OK):
        raise UsageError(f"--verdict {args.verdict}: there is no such folder, or it cannot be written to")
    if args.verdict and os.path.isdir(args.verdict):
        raise UsageError(f"--verdict {args.verdict}: that is a folder; name a file")
    try:
        job = _job(args, command).check()
        if args.dry_run:
            return _say(job, args.store) if command[1:4] != _PYTHON_JOB else _rehearse(job, args)
        if args.timeout is None:
            print(f"nightlatch: {args.name} may run for {_TIMEOUT}, since no --timeout is given", file=sys.stderr)
        from ..runtime.runs.pipeline import run

        store = args.store or store_of_run()
        told = run(job, store=store, last=not args.retries)
        for number in range(1, args.retries + 1):
            if not retry.worth_another(told.status, told.exit_code):
                break
            print(told.line(), file=sys.stderr)
            from ..runtime.runs import backoff

            backoff.pause(number, base=duration.parse(args.backoff, what="--backoff"), asked=told.retry_after)
            told = run(job, store=store, last=number == args.retries)
    except (Error, Stop) as error:
        if args.verdict:
            verdict.write_error(args.verdict, args.name, args.key or "", error)
        if not isinstance(error, Busy) or not args.held_ok:
            raise
        if sys.stderr.isatty():  # cron mails whatever is printed
            print(f"nightlatch: {error}", file=sys.stderr)
        return 0
    if args.verdict:
        verdict.write(args.verdict, told)
    print(told.line(), file=sys.stderr)
    if told.exit_code == InDoubt.exit_code and told.run:
        from . import desk

        print(f"nightlatch: it waits for you: {desk.command(args.store, 'show', told.run)}", file=sys.stderr)
    return told.exit_code


def _job(args: Namespace, command: list[str]) -> Job:
    slot, key = "", args.key or ""
    if args.tz and not args.slot:
        raise UsageError("--tz is the zone of a schedule: add --slot CRON")
    if args.new and (key or args.slot):
        raise UsageError("--new is for a run without a key: leave it away, or --key and --slot")
    duration.parse(args.backoff, what="--backoff")
    if args.retries < 0:
        raise UsageError(f"--retries {args.retries}: 0 is the least")
    if args.slot:
        if key:
            raise UsageError("--slot names the key by itself: leave --key away")
        slot = key = _slot(args.slot, args.tz)
    sources = args.progress
    timeout = seconds(_TIMEOUT if args.timeout is None else args.timeout, "--timeout")
    if args.cwd and not args.workspace and not os.path.isdir(args.cwd):
        raise UsageError(f"--cwd {args.cwd}: there is no such folder")
    return Job(
        name=args.name,
        command=command,
        key=key,
        slot=slot,
        ttl=duration.parse(args.ttl, what="--ttl") if args.ttl else None,
        wait=duration.parse(args.wait, what="--wait"),
        timeout=timeout,
        stall=seconds(args.stall, "--stall"),
        watched=tuple(source for source in sources if source != "report"),
        reports="report" in sources,
        grace=duration.parse(args.grace, what="--grace"),
        caps=caps(args.budget),
        meter=args.meter or "",
        env=tuple(_pair(text) for text in args.env),
        cwd=args.cwd,
        workspace=args.workspace,
        publish=tuple(args.publish),
        inputs=tuple(args.input),
        lost=args.lost,
        again=args.again,
        new=args.new,
        keep_awake=args.keep_awake,
    )


def _slot(expression: str, zone: str) -> str:
    from ..core import schedule
    from ..system import clock
    from ..system.zone import find

    return schedule.name_of(schedule.newest_due(expression, clock.wall(), find(zone)))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--env {text!r}: write NAME=VALUE")
    if name.startswith("NIGHTLATCH_"):
        raise UsageError(f"--env {name}: what begins with NIGHTLATCH_ is set by the run itself; take another name")
    return name, value


def _rehearse(job: Job, args: Namespace) -> int:
    """A Python job is run for its effects to be found, none of which is done."""
    from ..runtime.rehearsing.rehearsal import rehearse
    from .desk import command

    plan = rehearse(job, store=args.store or store_of_run())
    if args.verdict:
        verdict.write(args.verdict, plan)
    if plan.reason:
        print(f"nightlatch: {plan.reason}", file=sys.stderr)
    print(f"nightlatch: {plan.summary()}. Look: {command(args.store, 'show', job.name, '--plan')}", file=sys.stderr)
    return plan.exit_code


def _say(job: Job, store: str | None) -> int:
    from ..runtime.runs.look import Looking
    from .desk import NoStore, existing

    try:
        key = Looking(job, existing(store)).look_only()
    except NoStore:
        key = job.key  # nothing was ever done
    except Error as error:
        error.args = (f"would not run: {error}",)
        raise
    if isinstance(key, verdict.Verdict):
        done = f"run {key.run}: {advice.command('show', key.run)}" if key.run else "elsewhere"
        print(f"would skip {job.name} (key {job.key}): {key.reason}, by {done}. With --again it would run")
        return 0
    bound = "none" if job.timeout is None else duration.show(job.timeout)
    print(f"would run {job.name} (key {job.key or 'of its own'}, timeout {bound}): {' '.join(job.command)}")
    return 0
