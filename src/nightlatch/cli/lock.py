"""nightlatch lock"""

from __future__ import annotations

import sys

from ..errors import Busy, UsageError
from ..runtime.supervisor.leases.supervise import supervise
from .arguments import Parser, split_command

_PURPOSE = """\
Run a command while holding the lease NAME.

The command gets NIGHTLATCH_LEASE, NIGHTLATCH_TOKEN and NIGHTLATCH_GRANT; the token is higher than any
that was handed out for NAME before. The lease is renewed while the command runs. If it is lost, the
command and everything it started are killed. When the command ends, processes that it left behind are ended
too; then the lease is released.

Before the command starts, every --gate and every gate that was used under NAME before is sealed."""

_EXAMPLES = """\
  nightlatch lock reports -- ./build-reports.sh
  nightlatch lock reports --wait 5m -- python report.py
  nightlatch lock reports --held-ok -- ./every-minute.sh     # in a crontab: no mail when it is held
  nightlatch lock report --gate out.html -- sh -c './report > new.html && nightlatch publish new.html out.html'
  nightlatch lock site -- sh -c './deploy --token "$NIGHTLATCH_TOKEN"'"""


def main(argv: list[str]) -> int:
    ours, command = split_command(argv)
    parser = Parser("lock", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch lock NAME [options] -- CMD …"
    parser.add_argument("name", metavar="NAME", help="the lease; only one command at a time holds it")
    parser.add_argument("--ttl", metavar="TIME", help="how long it lasts without a renewal (default 60s)")
    parser.add_argument("--wait", metavar="TIME", default="0s", help="how long to wait if it is held (default 0s)")
    parser.add_argument(
        "--gate",
        metavar="TARGET",
        action="append",
        default=[],
        help="a path or URL to seal before the command starts: from then on older holders cannot write to it",
    )
    parser.add_flag("--held-ok", "if another process holds the lease: print nothing and exit 0, not 75")
    args = parser.parse_args(ours)
    if not command:
        raise UsageError("no command given: nightlatch lock NAME -- CMD …")
    try:
        ended = supervise(args.name, command, store=args.store, ttl=args.ttl, wait=args.wait, gates=args.gate)
    except Busy as busy:
        if not args.held_ok:
            raise
        if sys.stderr.isatty():  # cron mails whatever is printed
            print(f"nightlatch: {busy}", file=sys.stderr)
        return 0
    if ended.message:
        print(f"nightlatch: {ended.message}", file=sys.stderr)
    return ended.exit_code
