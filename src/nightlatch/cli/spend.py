"""nightlatch spend"""

from __future__ import annotations

import sys

from ..core import budget
from ..core.units import CAPPED
from ..runtime.shared.client import send
from .arguments import Parser

_PURPOSE = f"""\
Inside a run: report what was used, in {", ".join(CAPPED)}. A run that exceeds its budget is ended.
If the store cannot be reached, the report is counted and kept on this machine's disk until it can be."""

_EXAMPLES = """\
  nightlatch spend usd=0.03 tokens=900 calls=1
  nightlatch spend usd=0.12 --model claude-sonnet-4-5 --tag site=example.org"""


def main(argv: list[str]) -> int:
    parser = Parser("spend", _PURPOSE, _EXAMPLES)
    parser.add_argument("amounts", metavar="UNIT=AMOUNT", nargs="+")
    parser.add_argument("--model", metavar="NAME", help="the model that was called")
    parser.add_argument("--tag", metavar="TAG", help="count it under this tag, as in site=example.org")
    parser.add_flag("--extra", "count it in addition to the calls that the gateway meters")
    args = parser.parse_args(argv)
    about = {word: text for word, text in (("model", args.model), ("tag", args.tag), ("extra", args.extra)) if text}
    reply = send(do="spend", **about, **budget.amounts(args.amounts))
    if reply.get("kept"):
        print(f"nightlatch: {reply['kept']}", file=sys.stderr)
    return 0
