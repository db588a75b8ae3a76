"""nightlatch logs"""

from __future__ import annotations

import sys

from ..core import advice, statuses
from ..errors import UsageError
from ..ledger.records import RunRow
from ..observe.reader import StoreReader
from ..observe.run_views import next_of
from ..runtime.supervisor.run import kept_output
from ..system import clock, identity, printing
from ..system.strip_ansi import AnsiStripper
from .arguments import Parser
from .reading import open_reader

_PURPOSE = """\
Print the output of a run, or of a job's newest run: what its command printed in all attempts, with secrets removed.

Terminal escape sequences are removed, so that the output cannot affect your terminal; --raw prints every byte.
With -f it follows until the run ends. Output is kept on the machine where the run was."""

_EXAMPLES = """\
  nightlatch logs 7k3f
  nightlatch logs -f articles                # the job's newest run
  nightlatch logs --raw 7k3f | less -R"""

_LOOK_EVERY = 1.0  # seconds between two looks at the ledger while following


def main(argv: list[str]) -> int:
    parser = Parser("logs", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id; or a job")
    parser.add_flag("-f", "follow until the run ends")
    parser.add_flag("--raw", "print every byte unchanged")
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = reader.run_or_newest(args.run)
    folder = kept_output.folder_of(reader.store.folder, run.id)
    if not kept_output.exists(folder):
        _explain_missing(run, args.f)
    if not args.f:
        if not _print_output(folder, args.raw, None):
            print(f"nightlatch: run {run.id} of {run.job} ({run.status}) has printed nothing", file=sys.stderr)
        return 0
    has_ended = _HasEnded(reader, run)
    _print_output(folder, args.raw, has_ended)
    then = advice.text(next_of(reader, run, has_ended.status))
    print(f"nightlatch: run {run.id} of {run.job} is {has_ended.status}: {then}", file=sys.stderr)
    return 0


def _explain_missing(run: RunRow, follow: bool) -> None:
    """Raise an error that says why there is no output, unless `follow` can wait for it."""
    here = not run.host or run.host == identity.host()
    if not here:
        raise UsageError(
            f"the output of run {run.id} is kept on {run.host}, where it ran: {advice.command('logs', run.id)} there"
        )
    if run.status in statuses.OPEN and not follow:
        raise UsageError(f"run {run.id} has printed nothing yet: {advice.command('logs', '-f', run.id)} waits for it")


class _HasEnded:
    """Called as a function, says whether the run has ended or lapsed. It reads the ledger at most once a second."""

    def __init__(self, reader: StoreReader, run: RunRow) -> None:
        self._reader, self._run, self._next_look = reader, run.id, 0.0
        self.status = ""

    def __call__(self) -> bool:
        if clock.now() >= self._next_look:
            self.status = self._reader.status(self._reader.run(self._run))
            self._next_look = clock.now() + _LOOK_EVERY
        return self.status not in statuses.OPEN


def _print_output(folder: str, raw: bool, has_ended: _HasEnded | None) -> bool:
    """Print the output; True if there was any."""
    stripper, printed = AnsiStripper(), False
    for data in kept_output.follow(folder, has_ended) if has_ended else kept_output.read(folder):
        printed = printed or bool(data)
        printing.raw(data if raw else stripper.feed(data))
    printing.raw(stripper.end())
    return printed
