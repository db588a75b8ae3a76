"""nightlatch progress"""

from __future__ import annotations

from ..errors import UsageError
from ..runtime.shared.client import send
from .arguments import Parser

_PURPOSE = """\
Inside a run: report how far it is. With `--progress report`, a run whose number grows is not stalled.

DONE and TOTAL are whole numbers."""


def main(argv: list[str]) -> int:
    parser = Parser("progress", _PURPOSE, '  nightlatch progress 3/10 "three articles written"')
    parser.add_argument("done", metavar="DONE[/TOTAL]")
    parser.add_argument("message", metavar="MESSAGE", nargs="?", default="")
    args = parser.parse_args(argv)
    done, _, total = args.done.partition("/")
    if not done.isdigit() or (total and not total.isdigit()):
        raise UsageError(f"{args.done!r} is not understood: write 3 or 3/10")
    send(do="progress", done=int(done), total=int(total or 0), message=args.message)
    return 0
