"""nightlatch gate show|adopt"""

from __future__ import annotations

import time
from typing import cast

from ..errors import UsageError
from ..gates import at
from ..store import url
from .arguments import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Inspectable

_PURPOSE = """\
Look at what keeps stale holders from a write target: a path on this machine, or a URL.

show      the marks that stand there, and what was refused
adopt     make the marks of another store this store's, when this store replaces it for good. Holders of
          the other store are refused from then on; see first that none of them still works

exit code: 0; 69 the target could not be reached, 64 usage."""

_EXAMPLES = """\
  nightlatch gate show /srv/www/report.html
  nightlatch gate show s3://bucket/latest.parquet --json
  nightlatch gate adopt /srv/www/report.html"""


def main(argv: list[str]) -> int:
    parser = Parser("gate", _PURPOSE, _EXAMPLES)
    parser.add_argument("verb", choices=("show", "adopt"), metavar="VERB", help="show, adopt")
    parser.add_argument("target", metavar="TARGET", help="a path, or the URL of a gate")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    gate = _inspectable(args.target)
    if args.verb == "show":
        (_show_json if args.json else _show)(gate)
        return 0
    store = url.connect(args.store)
    foreign = gate.adopt(store.id)
    print(
        f"{args.target}: {foreign} mark{'' if foreign == 1 else 's'} adopted for {store.url} (store id {store.id[:8]})"
    )
    return 0


def _inspectable(target: str) -> Inspectable:
    gate = at(target)
    if not hasattr(gate, "standing"):
        raise UsageError(f"{target} is a gate that cannot be looked into from here")
    return cast("Inspectable", gate)


def _show(gate: Inspectable) -> None:
    print(f"gate     {gate.url}")
    for name, stands in gate.standing().items():
        print(
            f"mark     {name}  token {stands.mark.token}  {stands.by}  since {_time(stands.at)}  "
            f"store {stands.mark.store[:8]}"
        )
    for refusal in gate.refusals():
        why = f"token {refusal.stands} stood there" if refusal.stands else "fenced from another store"
        print(f"refused  {refusal.name}  token {refusal.offered}  {refusal.by}  at {_time(refusal.at)}  ({why})")


def _show_json(gate: Inspectable) -> None:
    facts: dict[str, object] = {
        "gate": gate.url,
        "marks": [
            {"lease": n, "token": s.mark.token, "store": s.mark.store, "holder": s.by, "since": s.at}
            for n, s in gate.standing().items()
        ],
        "refusals": [
            {"lease": r.name, "token": r.offered, "stands": r.stands, "holder": r.by, "at": r.at}
            for r in gate.refusals()
        ],
    }
    _print_json(facts)


def _print_json(facts: dict[str, object]) -> None:
    import json

    print(json.dumps({"version": 1, **facts}))


def _time(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
