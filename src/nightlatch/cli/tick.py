"""nightlatch tick"""

from __future__ import annotations

from ..config import place
from ..runtime.supervisor.afterwards import notify
from ..store import url
from .arguments import Parser
from .serve import server

_PURPOSE = """\
Start the jobs that are due now, wait until they have ended, and exit: one round of `nightlatch serve`. For cron,
launchd timers and CI.

Any number of `tick` and `serve` processes may share a store; each slot is started by one of them. The exit code is 0,
or that of a run that did not succeed."""

_EXAMPLES = """\
  * * * * * nightlatch tick --config ~/jobs/nightlatch.toml --detach    # in a crontab
  nightlatch tick"""


def main(argv: list[str]) -> int:
    parser = Parser("tick", _PURPOSE, _EXAMPLES)
    parser.add_flag("--detach", "do not wait for the runs to end")
    args = parser.parse_args(argv)
    code = server(args.store).tick(detach=args.detach)
    # Send the alerts that no run sends: an overdue slot, a reminder, the digest.
    where = url.resolve(args.store)
    notify.start_senders(place.of_a_run(""), where, url.folder_of(where))
    return code
