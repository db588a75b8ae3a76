"""nightlatch key"""

from __future__ import annotations

from ..core.keys import key
from .arguments import Parser

_PURPOSE = """\
Print the idempotency key of PART…: the same 64 hexadecimal digits on every machine, for ever.

The parts should name the work, not the time or the attempt. The boundaries between parts matter: `a:b c` and
`a b:c` give different keys. nightlatch.key("a", "b") in Python gives the same key."""

_EXAMPLES = """\
  nightlatch key example.org news/2026 my-article
  nightlatch key "$SITE" "$SLUG\""""


def main(argv: list[str]) -> int:
    parser = Parser("key", _PURPOSE, _EXAMPLES)
    parser.add_argument("parts", metavar="PART", nargs="+")
    print(key(*parser.parse_args(argv).parts))
    return 0
