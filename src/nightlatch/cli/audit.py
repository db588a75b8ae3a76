"""nightlatch audit"""

from __future__ import annotations

from ..errors import Error, UsageError
from .arguments import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.audit import Verdict

_PURPOSE = """\
Is the journal whole?

verify   read every entry, and name the first of each chain that was changed, removed or moved. Whoever
         owns the database could rewrite a chain as a whole: give heads that were kept elsewhere, and
         that is found too, and so is a tail that is missing.
head     print the head of every job's chain: keep it where the journal's owner cannot reach it. The
         log line of a finished run has one too (head=…)."""

_EXAMPLES = """\
  nightlatch audit verify
  nightlatch audit head | ssh elsewhere 'cat >> heads'
  nightlatch audit verify --head job:reports:17:9f2c…
  nightlatch audit verify --heads runs.log"""


def main(argv: list[str]) -> int:
    parser = Parser("audit", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch audit verify|head [options]"
    parser.add_argument("action", metavar="verify|head", choices=("verify", "head"), help="what to do")
    parser.add_argument("--head", metavar="HEAD", action="append", help="a head that was kept elsewhere (any number)")
    parser.add_argument("--heads", metavar="FILE", help="a file with heads, one a line; or log lines with head=…")
    parser.add_argument("--json", action="store_true", help="one JSON object (verify), JSON Lines (head)")
    args = parser.parse_args(argv)
    from ..ledger import open_for
    from .desk import existing

    ledger = open_for(existing(args.store))
    if args.action == "verify":
        return _verify(ledger.verify([*args.head, *(_kept(args.heads) if args.heads else [])]), args.json)
    if args.head or args.heads:
        raise UsageError("heads are compared by `nightlatch audit verify`")
    return _print_heads(ledger.heads(), args.json)


def _verify(verdict: Verdict, as_json: bool) -> int:
    unproven = verdict.behind > 0 and not verdict.compared
    if as_json:
        import json

        breaks = [{"chain": found.chain, "entry": found.seq, "what": found.what} for found in verdict.breaks]
        shown = {"version": 1, "whole": not breaks, "entries": verdict.entries, "chains": verdict.chains}
        print(json.dumps(shown | {"heads": verdict.compared, "heads_behind": verdict.behind, "breaks": breaks}))
        return 1 if breaks or unproven else 0
    for found in verdict.breaks:
        print(found)
    if verdict.breaks:
        raise _Broken(
            f"the journal is broken: {len(verdict.breaks)} of its {verdict.chains} chains. What stands before the "
            f"entries named above is whole; compare what follows with the runs' logs and with a backup"
        )
    if unproven:
        raise _Broken("the heads are older than what retention has left, so they prove nothing: give newer ones")
    heads = f", {verdict.compared} kept heads found" if verdict.compared else ""
    behind = f", {verdict.behind} older than what retention has left" if verdict.behind else ""
    print(f"the journal is whole: {verdict.entries} entries in {verdict.chains} chains{heads}{behind}")
    return 0


def _print_heads(heads: list[str], as_json: bool) -> int:
    for head in heads:
        if as_json:
            import json

            chain, seq, hash_ = head.rsplit(":", 2)
            print(json.dumps({"version": 1, "chain": chain, "entry": int(seq), "hash": hash_, "head": head}))
        else:
            print(head)
    return 0


def _kept(path: str) -> list[str]:
    """The heads in a file: a line is one, or is a log line that has one."""
    found = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                found += [word.removeprefix("head=") for word in words if word.startswith("head=") or len(words) == 1]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path} has no head in it")
    return found


class _Broken(Error):
    exit_code = 1
