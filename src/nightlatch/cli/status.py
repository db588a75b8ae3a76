"""nightlatch status, and `nightlatch` alone"""

from __future__ import annotations

import sys

from .. import exits
from ..core import advice
from ..core.model import Record
from ..core.value import replace
from ..observe import lease_views, night_rows, nightly, run_facts, verdict
from ..observe.night_rows import NightRow
from ..observe.overview import Overview, last_night, overview
from ..observe.reader import NoStore, StoreReader
from ..system import clock, printing
from . import night, screen
from .arguments import Parser
from .json_out import print_json
from .reading import open_reader, since_of

_PURPOSE = """\
Show the last night on one screen: first what needs you, then the runs that are active, waiting and done.

Each row ends with the subcommand to type after `nightlatch`. Runs that are in doubt, need attention or have lapsed stay
here until somebody decides, and failures for a day; the rest is from the last night, which begins at 22:00. This
command changes nothing and creates no store."""

_EXAMPLES = """\
  nightlatch
  nightlatch status --since 7d
  nightlatch status --exit-code || notify-send 'Nightlatch: something needs you'
  nightlatch status --markdown | mail -s 'The night' me@example.org
  nightlatch status --json"""

_ID = 12  # how many characters a whole run id has
_LEASES_SHOWN = 10  # leases of other machines that are shown
_ROWS_SHOWN = {"needs you": 15, "running": 10, "waiting": 5, "done": 10}  # rows of each part


def main(argv: list[str]) -> int:
    parser = Parser("status", _PURPOSE, _EXAMPLES)
    since_help = "how far to look back, or a day (default: since the last 22:00 that is at least 4 hours ago)"
    parser.add_argument("--since", metavar="TIME", help=since_help)
    parser.add_flag("--exit-code", "print nothing; exit with 1 if something needs you, else 0")
    parser.add_flag("--markdown", "print it as a report in Markdown")
    parser.add_flag("--html", "print it as an HTML page without links")
    parser.add_flag("--json", "print one JSON object")
    args = parser.parse_args(argv)
    since = since_of(args.since)
    try:
        reader = open_reader(args.store, listing=True)
    except NoStore as error:
        if args.json and not error.exit_code:
            print_json(Overview(since=since).facts())
        raise
    view = last_night(reader) if since is None else overview(reader, since)
    if args.markdown or args.html:
        report = nightly.markdown if args.markdown else nightly.as_html
        printing.verbatim(report(reader, view))
        return 0
    needs_you = args.exit_code and not view.nothing_needs_you
    if args.exit_code and not needs_you and not view.unreachable and not args.json:
        return 0
    ask_store = reader.ledger_is_per_machine and not view.unreachable and not args.json
    others = lease_views.of_other_ledgers(reader.store, reader.ledger, view.since or 0.0) if ask_store else []
    if args.json:
        print_json(view.facts())
    elif view.empty:
        _show_nothing(view, args.since, reader.ledger_is_per_machine, bool(others))
    else:
        _show(reader, view, args.since)
    _show_others(others)
    if view.unreachable:
        print(f"nightlatch: what other machines have begun is not shown: {view.unreachable}", file=sys.stderr)
    return exits.FAILED if needs_you else 0


def _show_nothing(view: Overview, since_text: str | None, ledger_is_per_machine: bool, elsewhere: bool) -> None:
    ago = since_text and "-" not in since_text
    when = f"in the last {since_text}" if ago else f"since {since_text or run_facts.at(view.since or 0.0)}"
    print(f"nothing needs you, nothing runs, and nothing ran {when}{' on this machine' if elsewhere else ''}.")
    start = advice.command("run", "hello", "--", "echo", "hello")
    if not elsewhere:
        print(f"Start something: {start}; all commands: nightlatch --help")
    if ledger_is_per_machine:
        print("With such a store each machine records its own runs.")


def _show_others(others: list[Record]) -> None:
    """Work on other machines, as far as the store shows it: the leases that they hold or held, and until when."""
    cells = []
    for record in others:
        when = "works now" if record.grant else f"ended {screen.local(record.until)}"
        cells.append([record.name, when, str(record.holder), advice.command("lease", "show", record.name)])
    if cells:
        print("\n" + screen.paint("on other machines", screen.BOLD))
        print("\n".join(screen.columns(cells[:_LEASES_SHOWN], elastic=(2,))))


def _show(reader: StoreReader, view: Overview, since_text: str | None) -> None:
    parts = night_rows.parts(reader, view, _ROWS_SHOWN)
    shown = [replace(part, rows=tuple(_shortened(reader, row) for row in part.rows)) for part in parts]
    more = f"runs --since {since_text or f'{_hours(view)}h'}"
    first = verdict.night_in_short(nightly.night(reader, view))
    for line in night.lines(first, shown, width=screen.width(), paint=screen.paint, plain=screen.plain(),
                            now=clock.wall(), more=more):  # fmt: skip
        print(line)
    program = advice.text(advice.to())
    print(screen.paint(f"type `{program}` and the last column", screen.DIM))


def _hours(view: Overview) -> int:
    """Hours since the night began, rounded up."""
    return int((clock.wall() - (view.since or 0.0)) // 3600) + 1


def _shortened(reader: StoreReader, row: NightRow) -> NightRow:
    """The row, with each run id cut to its shortest unique beginning."""
    words = tuple(
        reader.ledger.history.short(word) if len(word) == _ID and word.isalnum() else word for word in row.next.words
    )
    return replace(row, next=replace(row.next, words=words))
