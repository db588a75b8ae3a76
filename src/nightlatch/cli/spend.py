"""nightlatch spend"""

from __future__ import annotations

import sys

from ..core import budget
from ..core.units import CAPPED
from ..runtime.shared.client import send
from .arguments import Parser

_PURPOSE = f"""\
Inside a run: report what was used, in {", ".join(CAPPED)}. A run that passes its budget is ended.
While the store is away it is counted, and kept on this machine's disk until the store is back."""


def main(argv: list[str]) -> int:
    parser = Parser("spend", _PURPOSE, "  nightlatch spend usd=0.03 tokens=900 calls=1")
    parser.add_argument("amounts", metavar="UNIT=AMOUNT", nargs="+")
    parser.add_argument("--extra", action="store_true",
                        help="count it although calls to models are metered: it is for something else")  # fmt: skip
    args = parser.parse_args(argv)
    reply = send(do="spend", **budget.amounts(args.amounts), **({"extra": True} if args.extra else {}))
    if reply.get("kept"):
        print(f"nightlatch: {reply['kept']}", file=sys.stderr)
    return 0
