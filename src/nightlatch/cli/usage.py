"""nightlatch usage"""

from __future__ import annotations

from ..core import duration
from ..core.printable import printable
from ..core.units import UNITS
from ..errors import UsageError
from ..ledger.tally import NO_END
from ..observe import figures
from ..observe.reader import StoreReader
from ..observe.usage_report import BY, REPORTED, WITH_REPORTED, UsageReport, UsageRow, as_csv, report
from ..system import clock
from . import screen, usage_changes
from .arguments import Namespace, Parser
from .json_out import print_json
from .reading import open_reader

_PURPOSE = f"""\
Show what runs have used: {", ".join(UNITS)} (doubt: usd that may have been spent).
The sums are by job or by any of {", ".join(BY)}; with shares, the typical amount per run, and a forecast for the month.
Days are counted in the time zone in which the ledger was created. Daily sums are kept for ever; the usage of single
steps is kept as long as the runs.

With --changes: has the job left its usual level of money, tokens, time or items, since which run, and what changed just
before? --usual accepts the new level."""

_EXAMPLES = """\
  nightlatch usage
  nightlatch usage articles --by day --since 7d
  nightlatch usage --by model,tag --since 2026-11-01 --until 2026-11-30 --csv
  nightlatch usage articles --by model,agent,kind
  nightlatch usage articles --changes
  nightlatch usage articles --usual"""


def main(argv: list[str]) -> int:
    parser = Parser("usage", _PURPOSE, _EXAMPLES)
    parser.add_argument("job", metavar="JOB", nargs="?", help="only this job")
    parser.add_argument(
        "--by", metavar="WHAT", default="job", help=f"{', '.join(BY)}; several with commas (default job)"
    )
    parser.add_argument("--since", metavar="TIME", default="30d", help="how far to look back, or a day (default 30d)")
    parser.add_argument("--until", metavar="TIME", help="up to when: a day, or how long ago, as in 7d (default now)")
    parser.add_flag("--csv", "comma-separated values, with a header")
    parser.add_flag("--json", "one JSON object per line")
    parser.add_flag("--changes", "for a job: when it left its usual level, and why")
    parser.add_flag("--usual", "for a job: accept its new level as the usual one")
    args = parser.parse_args(argv)
    reader = open_reader(args.store, listing=True)
    if args.changes or args.usual:
        if not args.job:
            raise UsageError("--changes and --usual are about one job: nightlatch usage JOB --changes")
        return usage_changes.accept(args) if args.usual else usage_changes.show(reader, args.job, json=args.json)
    return _report(reader, args)


def _report(reader: StoreReader, args: Namespace) -> int:
    by = tuple(word.strip() for word in args.by.split(","))
    if unknown := [word for word in by if word not in BY] or [word for word in by if by.count(word) > 1]:
        raise UsageError(f"--by {unknown[0]!r}: use {', '.join(BY)}, each once, with commas between them")
    if any(word in REPORTED for word in by) and (others := [word for word in by if word not in WITH_REPORTED]):
        raise UsageError(f"--by {others[0]} cannot be combined with {', '.join(REPORTED)}: drop one")
    since, until = _day(reader, args.since, "--since"), _day(reader, args.until, "--until") if args.until else NO_END
    found = report(reader, by, job=args.job, since=since, until=until)
    if args.json:
        for facts in found.facts():
            print_json(facts)
    elif args.csv:
        print(as_csv(found), end="")
    elif not found.rows:
        print(f"nothing was used since {since}")
    else:
        _table(found)
    return 0


def _day(reader: StoreReader, text: str, option: str) -> str:
    """The day that `text` names: a date, or how long ago."""
    if len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdigit():
        return text
    try:
        return reader.ledger.history.day(clock.wall() - duration.parse(text, what=option))
    except UsageError as error:
        raise UsageError(f"{error}; or write a day, as in 2026-11-01") from None


def _table(found: UsageReport) -> None:
    units = found.units
    by_job = found.by == ("job",) and bool(units)
    with_days = any(row.daily for row in found.rows) and bool(units)
    head = [
        *found.by,
        *units,
        *(["share"] if units else []),
        *(["a run"] if by_job else []),
        "runs",
        "failed",
        *(["14 days"] if with_days else []),
    ]
    rows = [_cells(row, found, by_job, with_days) for row in found.rows]
    if len(rows) > 1:
        total = ["total", *[""] * (len(found.by) - 1)]
        rows.append([*total, *_cells(found.total, found, by_job, with_days)[len(found.by) :]])
    left = {*range(len(found.by)), *([len(head) - 1] if with_days else [])}
    for number, line in enumerate(screen.figures([head, *rows], left=left)):
        print(screen.paint(line, screen.DIM) if not number else line)
    if found.pace:
        print(f"\n{found.pace.month} ends at {figures.money(found.pace.expected)} at this pace; "
              f"{figures.money(found.pace.used)} so far")  # fmt: skip


def _cells(row: UsageRow, found: UsageReport, by_job: bool, with_days: bool) -> list[str]:
    cells = [printable(name) or "-" for name in row.by] or [""] * len(found.by)
    cells += [format(getattr(row.amounts, unit), UNITS[unit].table) for unit in found.units]
    if found.units:
        cells.append(figures.percent(row.share))
    if by_job:
        usual = row.usual_run
        cells.append(format(getattr(usual, found.unit), UNITS[found.unit].table) if usual else "")
    cells += [figures.count(row.runs), figures.count(row.failed) if row.failed else ""]
    return [*cells, *([figures.sparkline(row.daily)] if with_days else [])]
