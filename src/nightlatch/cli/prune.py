"""nightlatch prune"""

from __future__ import annotations

from ..core import duration
from ..errors import UsageError
from ..ledger import open_for
from ..runtime.supervisor.afterwards import pruning, retention
from ..system import clock
from ..system.identity import person
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader

_PURPOSE = """\
Remove runs that ended long ago, with their output, their workspaces, their part of the journal, and old slot
outcomes.

Never removed: done keys (work that is done is not done again), effects, items of a batch, and runs that are open, in
doubt, need attention, or may have published and could not record it. Usage is kept for at least a month, for the
monthly caps. The cut in the journal is recorded, so `nightlatch audit verify` still finds the journal intact.

Finished runs do this automatically, once a day on each machine, according to NIGHTLATCH_KEEP (default 90d; none:
never). Output and workspaces are removed only on this machine; other machines remove theirs."""

_EXAMPLES = """\
  nightlatch prune --dry-run
  nightlatch prune --keep 30d
  nightlatch prune --keep 30d --json"""


def main(argv: list[str]) -> int:
    parser = Parser("prune", _PURPOSE, _EXAMPLES)
    parser.add_argument(
        "--keep", metavar="TIME", default="", help="keep runs this long (default: $NIGHTLATCH_KEEP, else 90d)"
    )
    parser.add_flag("--dry-run", "say what would be removed; remove nothing")
    parser.add_flag("--json", "print one JSON object")
    args = parser.parse_args(argv)
    keep = retention.keep_seconds(args.keep)
    if keep is None:
        raise UsageError(f"everything is kept, as {'--keep' if args.keep else retention.ENV} says: name a time, "
                         f"as in nightlatch prune --keep 90d")  # fmt: skip
    reader = open_reader(args.store, listing=True)
    if not args.dry_run:
        pruning.sweep(reader.store.folder)
    removed = pruning.prune(reader.store, open_for(reader.url), keep, person(), dry=args.dry_run)
    if args.json:
        lists = {"runs": list(removed.runs), "outputs": list(removed.outputs), "workspaces": list(removed.workspaces)}
        print_json({"version": 1, "dry_run": args.dry_run, "keep": keep, "entries": removed.entries,
                    "slots": removed.slots, **lists})  # fmt: skip
        return 0
    if not (removed.runs or removed.entries or removed.slots or removed.outputs or removed.workspaces):
        print(f"nothing is older than {duration.show(keep)}")
        return 0
    counts = (
        (len(removed.runs), "run"),
        (removed.entries, "journal entr"),
        (removed.slots, "slot record"),
        (len(removed.outputs), "kept output"),
        (len(removed.workspaces), "workspace"),
    )
    summary = ", ".join(_count(number, word) for number, word in counts if number)
    verb = "would be removed" if args.dry_run else "removed"
    print(f"{verb}, from before {screen.local(clock.wall() - keep)}: {summary}")
    return 0


def _count(number: int, word: str) -> str:
    if word.endswith("entr"):
        return f"{number} {word}{'y' if number == 1 else 'ies'}"
    return f"{number} {word}{'' if number == 1 else 's'}"
