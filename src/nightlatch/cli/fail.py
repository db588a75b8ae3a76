"""nightlatch fail"""

from __future__ import annotations

import os
import sys

from ..core import retry
from ..errors import UsageError
from ..runtime.shared.client import send
from ..system import clock
from .arguments import Parser

_PURPOSE = """\
Inside a run or a batch's item: say why it failed, and whether trying again may help. It exits with 75 (try again) or
70 (permanent failure); let your script exit with that code, since --retries and the next start depend on it.

Without --http the failure counts as temporary, unless you add --permanent. With --http these codes count as temporary:
408, 425, 429, 5xx (except 501 and 505) and 000 (curl got no reply); all others are permanent. --retry-after is always
honoured in full; until then a batch starts no other item either."""

_EXAMPLES = """\
  ./post "$1" || exec nightlatch fail "the post was refused" --permanent
  read -r status after <<< "$(curl -sS -o reply -w '%{http_code} %header{retry-after}' -d @post.json "$url")"
  [[ $status = 2* ]] || exec nightlatch fail --http "$status" --retry-after "$after\""""


def main(argv: list[str]) -> int:
    parser = Parser("fail", _PURPOSE, _EXAMPLES)
    parser.add_argument("reason", metavar="REASON", nargs="?", default="")
    parser.add_argument("--http", metavar="STATUS", type=int, help="the HTTP status it failed with")
    parser.add_argument(
        "--retry-after", metavar="TIME", default="", empty=True, help="seconds or a date, as in the HTTP header"
    )
    parser.add_flag("--permanent", "the failure is permanent: do not try again")
    args = parser.parse_args(argv)
    if args.http and not 300 <= args.http <= 599:
        raise UsageError(f"--http {args.http} is not a failure: use 300 to 599, or 000 if no answer came")
    again = not args.permanent and (not args.http or retry.http_worth_another(args.http))
    why = f"HTTP status {args.http}" if args.http else "no answer"
    reason = args.reason or ("the command reported a failure" if args.http is None else why)
    after = _seconds(args.retry_after) if args.retry_after.strip() else 0.0
    if "NIGHTLATCH_SOCKET" in os.environ:
        send(do="fail", reason=reason)
        if again and after:
            send(do="retry-after", seconds=after)
    print(f"nightlatch: {reason}", file=sys.stderr)
    return retry.TRY_AGAIN if again else retry.FAILED_FOR_GOOD


def _seconds(text: str) -> float:
    try:
        return retry.retry_after_seconds(text, clock.wall())
    except (ValueError, TypeError):
        # Not a UsageError: its exit code 64 is a permanent failure, and a server's odd header must not end the retries.
        print(f"nightlatch: --retry-after {text!r} is neither seconds nor an HTTP date: ignored", file=sys.stderr)
        return 0.0
