"""nightlatch logs"""

from __future__ import annotations

import sys

from ..core import states
from ..errors import UsageError
from ..runtime.supervisor.run import kept
from ..system import clock, identity
from .arguments import Parser
from .desk import Desk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Run

_PURPOSE = """\
What a run's command printed, all attempts together; secrets were taken out when it was kept. Of a job: its newest
run's.

Terminal escapes are stripped, so that no output can play with your terminal; --raw passes on every byte.
With -f it follows until the run ends. The output is kept on the machine that the run was on."""

_EXAMPLES = """\
  nightlatch logs 7k3f
  nightlatch logs -f articles                # the job's newest run
  nightlatch logs --raw 7k3f | less -R"""

_LOOK_EVERY = 1.0  # seconds between two looks at the ledger while following


def main(argv: list[str]) -> int:
    parser = Parser("logs", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id; or a job")
    parser.add_argument("-f", action="store_true", help="follow until the run ends")
    parser.add_argument("--raw", action="store_true", help="every byte as it was printed")
    args = parser.parse_args(argv)
    desk = Desk(args.store)
    run = desk.ledger.run(args.run) or desk.ledger.newest(args.run) or desk.find(args.run)
    folder = kept.folder_of(desk.store.folder, run.id)
    if not kept.exists(folder):
        _explain(desk, run, args.f)
    if not args.f:
        _pass_on(folder, args.raw, None)
        return 0
    over = _Over(desk, run)
    _pass_on(folder, args.raw, over)
    print(f"nightlatch: run {run.id} of {run.job} is {over.state}: {desk.next(run, over.state)}", file=sys.stderr)
    return 0


def _explain(desk: Desk, run: Run, follow: bool) -> None:
    """Why there is no output; nothing to say if it is still to come, and waited for."""
    here = not run.host or run.host == identity.host()
    if not here:
        raise UsageError(
            f"the output of run {run.id} is kept on {run.host}, where it ran: {desk.command('logs', run.id)} there"
        )
    if run.state in states.OPEN and not follow:
        raise UsageError(f"run {run.id} has printed nothing yet: {desk.command('logs -f', run.id)} waits for it")
    if run.state not in states.OPEN:
        raise UsageError(f"there is no output of run {run.id} ({run.state}) here: {desk.command('show', run.id)}")


class _Over:
    """Has the run ended, or its holder gone? Asked often, it looks seldom."""

    def __init__(self, desk: Desk, run: Run) -> None:
        self._desk, self._run, self._look_at = desk, run.id, 0.0
        self.state = ""

    def __call__(self) -> bool:
        if clock.now() >= self._look_at:
            self.state = self._desk.state(self._desk.find(self._run))
            self._look_at = clock.now() + _LOOK_EVERY
        return self.state not in states.OPEN


def _pass_on(folder: str, raw: bool, over: _Over | None) -> None:
    from .plain import Plain

    plain, out = Plain(), sys.stdout.buffer
    for data in kept.follow(folder, over) if over else kept.read(folder):
        out.write(data if raw else plain.feed(data))
        out.flush()
    out.write(plain.end())
    out.flush()
