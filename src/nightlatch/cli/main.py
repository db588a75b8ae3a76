"""`nightlatch COMMAND …`: find the command, run it, turn errors into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys

from .. import exits
from ..errors import BadConfig, Error, Stop
from ..system import printing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# command → what it does, in the order of the help
COMMANDS = {
    "run": "run a command once for its key, within bounds, recorded",
    "batch": "run a command for each item, and only for those that are unfinished (an xargs to run again)",
    "agent": "launch an agent at a vendor, once and within bounds; list, show, cancel or attach one",
    "once": "do something to the outside world once: after a crash never repeated unasked",
    "init": "write a commented nightlatch.toml, or one with the jobs of a crontab",
    "check": "read nightlatch.toml: every mistake at once, or when each job is due and what could go wrong",
    "serve": "start the jobs of nightlatch.toml when they are due, on any number of machines",
    "tick": "start what is due now, and wait for it (for cron and CI)",
    "service": "serve from login on: install, remove or look at a systemd user unit or launchd agent",
    "progress": "inside a run: report how far it is",
    "spend": "inside a run: report what was used",
    "fail": "inside a run: say why it failed, and whether trying again may help",
    "status": "the last night in one screen; the same as `nightlatch` alone",
    "open": "the pages: the night, what needs you and what runs, in the browser",
    "runs": "list the runs, by job, status and time",
    "show": "one run: timeline, attempts, refusals, usage, the end of its output",
    "logs": "what a run's command printed; -f follows",
    "slots": "what became of every due time; skip one, or set a job's slots right after a wrong clock",
    "alerts": "alerts that were sent, or wait to be sent; alerts test",
    "traces": "a run as a trace, as an OpenTelemetry receiver sees it; traces send",
    "metrics": "runs, durations, usage, slots and budgets as Prometheus reads them",
    "usage": "what was used, by job or by day",
    "budget": "set the budget of a run, also of a running one",
    "approve": "publish or start what a supervised job holds back for your approval",
    "cancel": "end a run, from any machine that shares the store",
    "ack": "say that you have seen a failed run: it needs you no longer",
    "retry": "allow another attempt of a run",
    "resolve": "decide the outcome of a run, an effect or an item in doubt: done, failed or again",
    "promote": "one stage up, on evidence: manual, supervised, unattended",
    "demote": "one stage down",
    "pause": "skip a job's slots until somebody unpauses it",
    "unpause": "end a job's pause; it goes on with its next slot",
    "lock": "run a command while holding a lease (flock with a fencing token)",
    "lease": "acquire, renew, release, show, list or raise a lease from a script",
    "publish": "replace a file, a folder or an object, if the lease is still yours",
    "push": "push HEAD to a branch, if the lease is still yours",
    "gate": "show a gate's marks and refusals, adopt or forget it, guard tables and branches",
    "audit": "is the journal whole? verify it, or print the heads to keep elsewhere",
    "prune": "remove runs that ended long ago, with their output; done keys stay",
    "key": "print the idempotency key of what is processed",
    "doctor": "check this machine and the store; each finding says what to do",
    "migrate": "bring the store's tables up to date, or print the SQL for someone with permission",
    "demo": "a worker frozen just before its write: with a lock alone, and through a gate",
}

_OBJECTS = 20_000  # between garbage collections; with Python's 700, start-up has many collections and no garbage

_HELP = """usage: nightlatch [--store URL] [COMMAND …]

Runs agents and scheduled jobs while nobody watches: each slot once, within bounds, resumable; a stale
copy cannot write. Without a command: the last night in one screen, what needs you first.

commands:
{commands}

options:
  --store URL   {stores}
                default: $NIGHTLATCH_STORE, else the one that nightlatch.toml names, else a file of this user
  --config FILE nightlatch.toml; default: $NIGHTLATCH_CONFIG, else the nearest one from this folder up,
                else the user's
  -V, --version print the version
  -h, --help    this text; nightlatch COMMAND --help, or nightlatch help COMMAND, for a command's

examples:
  nightlatch run articles --slot '0 2 * * *' -- ./articles.sh
  nightlatch
  nightlatch lock reports -- ./build-reports.sh
  nightlatch lock reports --wait 5m --ttl 30s -- python report.py
  nightlatch lease show reports
  nightlatch doctor
"""


def main(argv: list[str] | None = None) -> NoReturn:
    """The console script. Ends the process at once: interpreter shutdown takes time and has nothing to do."""
    gc.set_threshold(_OBJECTS)
    _open_standard()
    printing.install()
    code = _run(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1  # the reader is gone, or the disk is full: what was printed did not arrive
    os._exit(code)


def _open_standard() -> None:
    """If fds 0–2 are closed (`>&-`), open /dev/null there, so that our files never get those numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def run(argv: list[str]) -> int:
    """For a process that goes on."""
    streams = sys.stdout, sys.stderr
    printing.install()
    try:
        return _run(argv)
    finally:
        sys.stdout, sys.stderr = streams


def _run(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except (Error, Stop) as error:
        from ..core.printable import printable

        # It may quote a command's output, so it is one line; of a file each mistake has its own.
        first, *others = (isinstance(error, BadConfig) and error.lines) or (str(error),)
        for line in [f"nightlatch: {first}", *others]:
            print(printable(line), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        return 141
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and any(
            error.object[error.start : error.end] in word for word in argv
        ):
            print("nightlatch: an argument is not valid UTF-8, so it names nothing", file=sys.stderr)
            return exits.USAGE
        if os.environ.get("NIGHTLATCH_DEBUG"):
            raise
        from ..core.printable import printable

        print(
            f"nightlatch: {type(error).__name__}: {printable(str(error))}. This is a fault of Nightlatch; "
            f"NIGHTLATCH_DEBUG=1 shows where",
            file=sys.stderr,
        )
        return exits.OURS


def _dispatch(argv: list[str]) -> int:
    options, command, rest = _split(argv)
    if command == "help":  # nightlatch help run
        return _dispatch([*rest[:1], "--help"])
    if command in COMMANDS:
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

        print(
            _HELP.format(
                stores=examples(), commands="\n".join(f"  {name:<9}{what}" for name, what in COMMANDS.items())
            ),
            end="",
        )
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

    from ..errors import UsageError

    near = difflib.get_close_matches(word.lower(), COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    kind = "option" if word.startswith("-") else "command"
    return UsageError(f"unknown {kind} {word!r}: {hint}see `nightlatch --help`")
