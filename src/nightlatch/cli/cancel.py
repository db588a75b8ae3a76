"""nightlatch cancel"""

from __future__ import annotations

from ..core import advice, statuses
from ..core.printable import printable
from ..errors import InDoubt, RunEnded
from ..ledger import open_for
from ..observe.run_views import facts
from ..runtime.supervisor.afterwards import lapse
from .arguments import Parser
from .decisions import title, undecidable, who
from .json_out import print_json
from .reading import open_reader

_PURPOSE = """\
Ask for the end of a run, from any machine that shares its ledger.

What nobody works on is cancelled at once: a run that nobody has begun, or one that waits for its next try. The
supervisor of a running one finds the request within seconds, ends the command after its grace time (10s unless
--grace was given), and exits with 120. Its key is not done: the next start of it makes another attempt. Asking
twice changes nothing."""


def main(argv: list[str]) -> int:
    parser = Parser("cancel", _PURPOSE, "  nightlatch cancel 7k3f")
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    args = parser.parse_args(argv)
    reader = open_reader(args.store)
    run = reader.run(args.run)
    if reader.status(run) == lapse.LAPSED:
        # Nobody is there to find the word; it would wait for the next attempt and end that one.
        raise InDoubt(
            f"{title(run)} has lapsed: its holder {run.holder} is gone. Say how it ended: "
            f"{advice.command('resolve', run.id)}"
        )
    try:
        asked = open_for(reader.url).request_cancel(run.id, who())
    except RunEnded as ended:
        raise undecidable(ended) from None
    if args.json:
        print_json(facts(asked, asked.status))
    elif asked.status == statuses.RUNNING:
        holder = printable(str(asked.holder))
        print(
            f"{title(run)} is asked to end: {holder} finds the word within seconds, and ends the "
            f"command after its grace time. Watch: {advice.command('logs', '-f', run.id)}"
        )
    else:
        why = "no other try is made" if run.attempt else "it had not begun"
        print(f"{title(run)} is cancelled: {why}. Again: {advice.command('retry', run.id)}")
    return 0
