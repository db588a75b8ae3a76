"""`nightlatch COMMAND …`: find the command, run it, turn errors into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys

from .. import exits
from ..core.printable import printable
from ..errors import BadConfig, Error, Stop, UsageError, remedy
from ..system import preload, printing
from ..system.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

# command → what it does, in the order of the help
COMMANDS = {
    "run": "run a command once for its key, with a timeout and a budget, and record it",
    "batch": "run a command for each item that is not done yet (an xargs that you can run again)",
    "agent": "run an agent that a vendor hosts, once per key; list, show, cancel or attach one",
    "once": "do something to the outside world once; after a crash it is repeated only if you say so",
    "init": "write a commented nightlatch.toml, or one with the jobs of your crontab",
    "check": "check nightlatch.toml: every mistake, or when each job is due and what could go wrong",
    "serve": "start the jobs of nightlatch.toml when they are due, on any number of machines",
    "tick": "start the jobs that are due now, and wait for them (for cron and CI)",
    "service": "run `serve` from login on: install, remove or check a systemd user unit or launchd agent",
    "progress": "inside a run: report how far it is",
    "spend": "inside a run: report what was used",
    "fail": "inside a run: say why it failed, and whether trying again may help",
    "status": "show the last night on one screen; the same as `nightlatch` alone",
    "open": "open the web pages: the night, what needs you, and active runs",
    "runs": "list the runs, by job, status and time",
    "show": "show one run: timeline, attempts, refusals, usage, the end of its output",
    "logs": "print a run's output; -f follows it",
    "slots": "show the outcome of every due time; skip one, or correct a job's slots after a wrong clock",
    "alerts": "list alerts that were sent or are waiting; send them, or a test message",
    "traces": "show a run as an OpenTelemetry trace, or send it",
    "metrics": "print runs, durations, usage, slots and budgets in the Prometheus format",
    "usage": "show what was used, by job, day, model and more",
    "budget": "set the budget of a run, even while it is active",
    "approve": "publish or start what a supervised job holds back for your approval",
    "cancel": "end a run, from any machine that shares the store",
    "ack": "mark a failed run as seen, so that it no longer needs you",
    "retry": "try a run again",
    "resolve": "decide the outcome of a run, an effect or an item in doubt: done, failed or again",
    "promote": "move a job one stage up, on evidence: manual, supervised, unattended",
    "demote": "move a job one stage down",
    "pause": "skip a job's slots until somebody unpauses it",
    "unpause": "end a job's pause; it continues with its next slot",
    "lock": "run a command while holding a lease (flock with a fencing token)",
    "lease": "acquire, renew, release, show or list leases from a script, or raise a token",
    "publish": "replace a file, a folder or an object, if the lease is still yours",
    "push": "push HEAD to a branch, if the lease is still yours",
    "gate": "show a gate's marks and refusals; adopt or forget it; guard tables and branches",
    "audit": "check that nobody has tampered with the journal, or print the heads to keep elsewhere",
    "prune": "remove runs that ended long ago, with their output; done keys stay",
    "key": "print an idempotency key for the given parts",
    "doctor": "check this machine and the store, and say how to fix each problem",
    "store": "show where the store and its log are, or remove it for good",
    "migrate": "bring the store's tables up to date, or print the SQL for someone with permission",
    "completion": "complete commands, options, jobs and runs in bash, zsh or fish",
    "demo": "show what happens to a stale write: with a lock alone, and through a gate",
}

# words that other programs use → our command or option
_SYNONYMS = {
    "resume": "unpause", "start": "run", "stop": "cancel", "kill": "cancel", "rerun": "retry",
    "list": "runs", "ls": "runs", "ps": "runs", "history": "runs", "costs": "usage",
    "jobs": "slots", "config": "check", "validate": "check", "daemon": "serve", "web": "open", "ui": "open",
    "stage": "promote", "version": "--version", "-v": "--version",
}  # fmt: skip

_GC_THRESHOLD = 20_000  # objects; with Python's 700, start-up has many collections that find no garbage

_USAGE = "nightlatch [--store URL] [COMMAND …]"
_PURPOSE = """\
Runs agents and scheduled jobs unattended: each slot once, with a timeout and a budget, resumable; a stale copy cannot
overwrite newer results. Without a command it shows the last night on one screen, starting with what needs you."""
_STORE_HELP = "default: $NIGHTLATCH_STORE, else the store in nightlatch.toml, else a file of this user"
_CONFIG_HELP = (
    "nightlatch.toml (default: $NIGHTLATCH_CONFIG, else the nearest one from this folder up, else the user's)"
)
_EXAMPLES = """\
  nightlatch run articles --slot '0 2 * * *' -- ./articles.sh
  nightlatch
  nightlatch lock reports -- ./build-reports.sh
  nightlatch lock reports --wait 5m --ttl 30s -- python report.py
  nightlatch lease show reports
  nightlatch doctor"""


def main(argv: list[str] | None = None) -> NoReturn:
    """The console script. Ends by os._exit: interpreter shutdown takes time and has nothing left to do."""
    gc.set_threshold(_GC_THRESHOLD)
    # If our caller ignores SIGCHLD, we inherit that. The kernel would then discard exit codes, and reuse the pids of
    # our children before we know that they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _open_standard_fds()
    printing.install()
    code = _run(sys.argv[1:] if argv is None else argv, begin=preload.begin)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
            lost = getattr(stream, "failed", False)
        except OSError:
            lost = True
        if lost:
            code = code or 1  # the reader is gone, or the disk is full: what was printed did not arrive
    os._exit(code)


def _open_standard_fds() -> None:
    """If fds 0–2 are closed (`>&-`), open /dev/null there, so that our files never get those numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number, which is fd
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def run(argv: list[str]) -> int:
    """Run a command in a process that continues afterwards; return the exit code."""
    streams = sys.stdout, sys.stderr
    printing.install()
    try:
        return _run(argv)
    finally:
        sys.stdout, sys.stderr = streams


def _run(argv: list[str], begin: Callable[[str], None] = lambda _: None) -> int:
    """`begin` gets the command's name before its module is imported."""
    try:
        return _dispatch(argv, begin)
    except (Error, Stop) as error:
        # An error may quote a command's output, so it becomes one line; an invalid file has a line for each mistake.
        first, *others = (isinstance(error, BadConfig) and error.lines) or (str(error),)
        for line in [f"nightlatch: {first}", *others]:
            print(printable(line), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        return 141  # as a shell reports SIGPIPE
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and any(
            error.object[error.start : error.end] in word for word in argv
        ):
            print("nightlatch: an argument is not valid UTF-8: check how it is encoded", file=sys.stderr)
            return exits.USAGE
        if os.environ.get("NIGHTLATCH_DEBUG"):
            raise
        if advice := remedy(error):
            print(f"nightlatch: {printable(str(error))}. {advice}, then try again", file=sys.stderr)
            return exits.UNREACHABLE
        print(
            f"nightlatch: {type(error).__name__}: {printable(str(error))}. This is a fault of Nightlatch; "
            f"NIGHTLATCH_DEBUG=1 shows where",
            file=sys.stderr,
        )
        return exits.OURS


def _dispatch(argv: list[str], begin: Callable[[str], None]) -> int:
    options, command, rest = _split(argv)
    if command == "help":  # nightlatch help run
        return _dispatch([*rest[:1], "--help"], lambda _: None)
    if command in COMMANDS:
        begin(command)
        module = __import__(f"{__package__}.{command}", fromlist=["main"])  # importlib itself takes a while to import
        return int(module.main([*options, *rest]))
    if command is None and options in (["--version"], ["-V"]):
        from .. import __version__

        print(f"nightlatch {__version__}")
        return 0
    if command is None and not {"-h", "--help"} & set(options):
        from . import status

        return status.main(options)
    if command is None:
        from ..store.url import examples
        from . import helptext

        rows = [
            ("--store URL", f"{examples()} ({_STORE_HELP})"),
            ("--config FILE", _CONFIG_HELP),
            ("-V, --version", "print the version"),
            ("-h, --help", "this text; nightlatch COMMAND --help, or nightlatch help COMMAND, for one command"),
        ]
        lines = [*helptext.usage(_USAGE), "", *helptext.prose(_PURPOSE), "", "commands:"]
        lines += [*helptext.table(COMMANDS.items()), "", "options:", *helptext.table(rows)]
        print("\n".join([*lines, "", "examples:", *helptext.examples(_EXAMPLES)]))
        return 0
    raise _unknown(command)


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str]]:
    """(options before the command, the command, the rest)"""
    options: list[str] = []
    words = iter(enumerate(argv))
    for index, word in words:
        if word in ("--store", "--config"):
            options += [word, *(value for _, value in [next(words, (0, ""))])]
        elif word.startswith(("--store=", "--config=")) or word in ("-h", "--help", "--version", "-V"):
            options.append(word)
        elif word.startswith("-"):
            raise _unknown(word)
        else:
            return options, word, argv[index + 1 :]
    return options, None, []


def _unknown(word: str) -> Error:
    import difflib

    ours = _SYNONYMS.get(word.lower())
    near = [ours] if ours else difflib.get_close_matches(word.lower(), COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    kind = "option" if word.startswith("-") else "command"
    return UsageError(f"unknown {kind} {word!r}: {hint}see `nightlatch --help`")
