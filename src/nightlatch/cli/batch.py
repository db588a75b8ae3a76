"""nightlatch batch"""

from __future__ import annotations

import os
import sys

from ..core import options
from ..core.batch import Batch
from ..core.model import check_name
from ..core.options import BATCH
from ..core.passwords import without_password
from ..core.value import replace
from ..errors import UsageError
from . import verdict_line
from .agent_flags import add_agent_flags, target
from .arguments import Namespace, Parser, split_command

OPTIONS = options.rows(Batch, BATCH)

_PURPOSE = """\
Run a command for each item that is not done yet: an xargs that you can safely run again.

ITEMS is a file of JSON lines (.jsonl), CSV (.csv; names in its first line) or plain lines, or - for standard
input (read to its end first). In CMD, {field} becomes the item's field and {} the item as a whole; each word
stays one word, and without --shell no shell is involved. The command also gets the item as JSON on standard input
and in NIGHTLATCH_ITEM, its key in NIGHTLATCH_KEY, and in NIGHTLATCH_IDEMPOTENCY_KEY a key for APIs that accept one.

An item is identified by its key within NAME, so items may be reordered, added or removed. Exit code 0 means done,
for good. Any other code means failed: --retries and the next start try the item again. Codes 64 to 78, except 69,
75 and 76, mean a permanent failure (`nightlatch fail` picks one): the item is set aside until --retry-failed or
`nightlatch resolve KEY again --batch NAME`. Code 76 means that a `nightlatch once` inside CMD is in
doubt. The next start runs CMD again; that is safe, since the `once` in it does not repeat what is in doubt. --lost
decides about items that were killed from outside (SIGKILL), alone or with the whole batch: doubt (they need
`nightlatch resolve`) or again. A key that occurs twice is done once. If most of the last ten items failed in the same
way, the batch pauses, unless --max-failures sets another limit.

With --publish an item runs in a fresh folder, and is done when its result has been published through a gate; after
a crash, a published result is recognised and not published again. --budget ends an item (usd/item=0.1) or the whole
batch (usd=5, usd/day=10) when it exceeds its cap."""

_EXAMPLES = """\
  nightlatch batch posts posts.jsonl --key '{site}/{slug}' -j 4 --timeout 5m -- ./write-post {slug}
  nightlatch batch thumbs - -- convert {} -resize 200x {}.thumb.png < names.txt
  nightlatch batch mails people.csv --key '{email}' --lost again -- \\
      nightlatch once 'mail/{email}' --timeout 30s --wait 2m --probe './was-sent {email}' -- ./send {email}
  nightlatch batch pages pages.jsonl --key '{slug}' --publish page.md=out/{slug}.md \\
      --budget usd/item=0.2,usd=10 -- claude -p 'Write page.md about {title}'
  nightlatch batch posts posts.jsonl --key '{site}/{slug}' --dry-run -- ./write-post {slug}
  nightlatch batch drafts posts.jsonl --key '{slug}' -j 3 --timeout 1h --budget usd/item=2 \\
      --provider anthropic --agent agent_01 --set environment_id=env_01 --input 'Write about {title}'
  nightlatch resolve example.org/hello again --batch posts       # an item that is in doubt or was set aside
  nightlatch resolve --all again --batch posts                     # all of them"""


def main(argv: list[str]) -> int:
    ours, words = split_command(argv)
    ours = [f"--jobs={word[2:]}" if word[:2] == "-j" and word[2:].isdecimal() else word for word in ours]
    parser = Parser("batch", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch batch NAME ITEMS --key TEMPLATE [options] -- CMD … | --provider P --input TEXT"
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the batch: its items are recorded under this name, and only one start of it runs at a time",
    )
    parser.add_argument("items", metavar="ITEMS", help="a file, or - for standard input")
    parser.add_options(OPTIONS.values())
    add_agent_flags(parser)
    parser.add_argument("-j", metavar="N", type=int, help="same as --jobs")
    parser.add_flag("--quiet", verdict_line.QUIET)
    parser.add_flag("--dry-run", "show what would be done; claim and start nothing")
    parser.add_flag("--json", "print the summary or plan as JSON; items' output goes to stderr")
    args = parser.parse_args(ours)
    check_name(args.name)
    batch = _batch(args, words, argv)
    if args.dry_run:
        return _dry_run(batch, args.store, args.json)
    from ..runtime.supervisor.batches.batch import run

    if args.quiet:
        verdict_line.hush()
    verdict, summary = run(batch, store=args.store)
    verdict_line.show(verdict, quiet=args.quiet)
    if args.quiet:
        verdict_line.show_tail(verdict, args.store)
    if args.json:
        from .json_out import print_json

        print_json({"version": 1, "batch": batch.name, "run": verdict.run, "status": verdict.status} | summary
                   | {"exit_code": verdict.exit_code})  # fmt: skip
    return verdict.exit_code


def _batch(args: Namespace, command: list[str], argv: list[str]) -> Batch:
    import shlex
    from pathlib import Path

    from ..runtime.child.batches.item_workspaces import check as check_publish
    from ..runtime.shared.batches.items import ItemReader
    from ..runtime.shared.batches.template import CommandTemplate

    if not args.items:
        raise UsageError("ITEMS is missing: a file, or - for standard input")
    values = args.given_values(OPTIONS) | ({} if args.j is None else {"jobs": args.j})
    if args.provider and not command:
        from ..core.agent import for_agent

        command, values = list(target(args).words), for_agent(values)
    if not command:
        raise UsageError(f"no command given: nightlatch batch {args.name} ITEMS -- CMD …")
    store = args.store or ""
    batch = Batch(
        name=args.name,
        items=args.items,
        command=command,
        json=args.json,
        continued_by=f"nightlatch batch {shlex.join(word.replace(store, without_password(store)) for word in argv)}",
        **options.read(Batch, values, BATCH, options.as_flag),
    ).check()
    if batch.items == "-" or Path(batch.items).is_fifo():
        _copy_to_stdin(batch.items)
        batch = replace(batch, items="-")
    reader = ItemReader(batch.items, batch.format, batch.key)  # raises on a mistake before anything is claimed
    fields = CommandTemplate(command, shell=batch.shell).fields
    reader.check(fields, "the command")
    # xargs would append the item to such a command.
    if not fields and not args.provider and not args.quiet and sys.stderr.isatty():
        how = "gets each item on standard input and in NIGHTLATCH_ITEM"
        print(f"nightlatch: the command has no placeholder such as {{}}, so it {how}", file=sys.stderr)
    check_publish(list(batch.publish))
    return batch


def _copy_to_stdin(items: str) -> None:
    """Copy standard input, or a pipe such as <(seq 9), to an unnamed file that becomes standard input: the driver reads
    the items twice, which a pipe does not allow."""
    import shutil
    import tempfile

    with tempfile.TemporaryFile() as file:
        with open(0 if items == "-" else items, "rb", closefd=items != "-") as pipe:
            shutil.copyfileobj(pipe, file)
        file.flush()
        file.seek(0)
        os.dup2(file.fileno(), 0)


def _dry_run(batch: Batch, store: str | None, as_json: bool) -> int:
    """Print what would be done according to the ledger now; claim and start nothing. Returns the exit code."""
    import shlex

    from ..observe.reader import NoStore
    from ..runtime.child.batches.item_workspaces import ItemWorkspaces
    from ..runtime.shared.batches.items import ItemReader
    from ..runtime.shared.batches.selection import Selection
    from ..runtime.shared.batches.template import BadItem, CommandTemplate
    from ..runtime.supervisor.batches.batch import known
    from .json_out import print_json
    from .reading import open_reader

    reader = ItemReader(batch.items, batch.format, batch.key)
    try:
        known_items = known(open_reader(store).ledger, batch)
    except NoStore:
        known_items = {}  # nothing was ever done, and a dry run creates no store
    selection = Selection(reader, known_items)
    command, workspaces = CommandTemplate(batch.command, shell=batch.shell), ItemWorkspaces(list(batch.publish), "")
    count = 0
    while not selection.exhausted:
        item = selection.next()
        if item is None:
            continue
        try:
            words, targets = command.argv(item.content), workspaces.targets(item.content)
            if as_json:
                print_json({"version": 1, "key": item.key, "command": words, "publish": targets})
            else:
                print(f"would do {item.key}: {shlex.join(words)}" + "".join(f", publish {to}" for to in targets))
            count += 1
        except BadItem as error:
            selection.bad.append(reader.bad(item.line, error))
    for bad in selection.bad:
        print(f"nightlatch: {bad}", file=sys.stderr)
    for item in selection.duplicates:
        print(f"nightlatch: line {item.line}: {item.key} occurs more than once", file=sys.stderr)
    print(
        f"{count} to do, {selection.skipped} done, {len(selection.in_doubt)} in doubt, {selection.doubled} repeated, "
        f"{len(selection.bad)} unreadable" + (f", {len(selection.set_aside)} set aside" if selection.set_aside else ""),
        file=sys.stderr if as_json else sys.stdout,
    )
    return 1 if selection.bad else 0
