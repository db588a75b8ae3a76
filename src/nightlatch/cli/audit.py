"""nightlatch audit"""

from __future__ import annotations

from ..core.printable import printable
from ..errors import Error, UsageError
from ..ledger.audit import AuditResult
from ..runtime.supervisor.afterwards.retention import keep_seconds
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader

_PURPOSE = """\
Check that nobody has tampered with the journal.

verify   read every entry; report, for each chain, the first entry that was changed, removed or moved, and every run,
         attempt, usage, item and effect that differs from its entries. The owner of the database could rewrite a
         whole chain: pass heads (a chain's last hash) that you kept elsewhere, and verify finds this too, as well
         as a missing tail and a forged prune. Better still, pass lines of runs.log (--heads runs.log): they have
         times, so verify can tell whether what was pruned was old enough.
head     print the head of every job's chain; keep it where the journal's owner cannot change it. The log line of
         a finished run has one too (head=…).

If you prune earlier than $NIGHTLATCH_KEEP (90d), as with `nightlatch prune --keep`, keep a new head afterwards:
if you pass only heads that are older than such a prune, verify reports the prune."""

_EXAMPLES = """\
  nightlatch audit verify
  nightlatch audit head > heads          # to be kept on another machine: scp heads elsewhere:
  nightlatch audit verify --heads heads
  nightlatch audit verify --heads ~/.local/state/nightlatch/nightlatch.db.d/runs.log"""


def main(argv: list[str]) -> int:
    parser = Parser("audit", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch audit verify|head [options]"
    parser.add_argument("action", metavar="verify|head", choices=("verify", "head"), help="what to do")
    parser.add_argument(
        "--head", metavar="HEAD", action="append", help="a head that was kept elsewhere; may be repeated"
    )
    parser.add_argument("--heads", metavar="FILE", help="a file with one head per line, or with log lines (head=…)")
    parser.add_flag("--json", "one JSON object (verify), JSON Lines (head)")
    args = parser.parse_args(argv)
    ledger = open_reader(args.store).ledger
    if args.action == "verify":
        kept = [*args.head, *(_read_heads(args.heads) if args.heads else [])]
        return _print_result(ledger.journal.verify(kept, keep_seconds()), args.json)
    if args.head or args.heads:
        raise UsageError("--head and --heads are for `nightlatch audit verify`")
    return _print_heads(ledger.journal.heads(), args.json)


def _print_result(result: AuditResult, as_json: bool) -> int:
    if as_json:
        breaks = [{"chain": found.chain, "entry": found.seq, "what": found.what} for found in result.breaks]
        print_json({
            "version": 1, "intact": not breaks, "entries": result.entries, "chains": result.chains,
            "heads": result.compared, "heads_behind": result.behind, "unproven": result.unproven, "breaks": breaks,
        })  # fmt: skip
        return 1 if breaks or result.unproven else 0
    for found in result.breaks:
        print(printable(str(found)))
    if result.breaks:
        raise _JournalBroken(
            f"the journal is broken: {len(result.breaks)} of its {result.chains} chains. Entries before those named "
            f"above are intact; compare the later ones, and the runs, with runs.log and with a backup"
        )
    if result.unproven:
        raise _JournalBroken(
            f"the heads of {', '.join(result.unproven)} are older than the oldest entry that was not pruned, so "
            f"they prove nothing: pass newer ones, or the whole log lines that contain them"
        )
    heads = f", {result.compared} kept heads found" if result.compared else ""
    behind = f", {result.behind} older than the oldest entry that was not pruned" if result.behind else ""
    print(f"the journal is intact: {result.entries} entries in {result.chains} chains{heads}{behind}")
    return 0


def _print_heads(heads: list[str], as_json: bool) -> int:
    for head in heads:
        if as_json:
            chain, seq, hash_ = head.rsplit(":", 2)
            print_json({"version": 1, "chain": chain, "entry": int(seq), "hash": hash_, "head": head})
        else:
            print(printable(head))
    return 0


def _read_heads(path: str) -> list[str]:
    """The lines of the file that have a head in them: alone, or in a log line."""
    found = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                found += [line] if len(words) == 1 or any(word.startswith("head=") for word in words) else []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path} has no head in it: give one per line, or log lines (head=…)")
    return found


class _JournalBroken(Error):
    exit_code = 1
