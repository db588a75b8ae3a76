"""nightlatch slots"""

from __future__ import annotations

from ..core import advice
from ..core.printable import printable
from ..core.row import APPROVER, COLLAPSED, RAN, Pause, Row, SlotRecord
from ..core.schedule import counted, name_of
from ..core.stage import UNATTENDED
from ..errors import UsageError
from ..ledger import open_for
from ..observe import slots, stages
from ..observe.reader import StoreReader
from ..observe.slots import JobLine
from ..scheduler.people import JobSlots
from ..system import clock
from ..system.identity import person
from . import screen
from .arguments import Parser
from .json_out import print_json
from .only_people import require_person
from .reading import open_reader, since_of
from .times import moment

_PURPOSE = """\
Show the outcome of every slot (due time): ran, collapsed into a later one, or skipped, with the reason.

Without JOB, print one row per job: its next slot, the outcome of the last one, the machine that is working on it,
whether a slot is overdue (not claimed ten minutes after its time) and how many were skipped."""

_EXAMPLES = """\
  nightlatch slots
  nightlatch slots articles --since 7d
  nightlatch slots articles --skip 2026-12-24T02:00
  nightlatch slots articles --from 2026-11-16T02:00      # after a wrong clock has moved the job ahead"""

_COLOURS = {"ran": screen.GREEN, "collapsed": screen.YELLOW, "skipped": screen.YELLOW}


def main(argv: list[str]) -> int:
    parser = Parser("slots", _PURPOSE, _EXAMPLES)
    parser.add_argument("job", metavar="JOB", nargs="?", help="only this job")
    parser.add_argument("--since", metavar="TIME", default="30d", help="how far to look back, or a day (default 30d)")
    parser.add_argument("--skip", metavar="TIME", help="do not run this slot")
    parser.add_argument(
        "--from", metavar="TIME", help="after a wrong clock: go back, and schedule the job from this time on"
    )
    parser.add_flag("--json", "one JSON object per line")
    args = parser.parse_args(argv)
    from_time = getattr(args, "from")
    if (args.skip or from_time) and not args.job:
        raise UsageError(f"name the job: {advice.command('slots', 'JOB', '--skip', 'TIME')}")
    reader = open_reader(args.store, listing=True)
    if from_time:
        require_person(f"slots {args.job} --from", args.job, args.store)
    if args.skip or from_time:
        return _decide(reader, args.job, args.skip, from_time)
    since = since_of(args.since) or 0.0
    return _show_one(reader, args.job, since, args.json) if args.job else _show_all(reader, since, args.json)


def _decide(reader: StoreReader, job: str, skip: str | None, from_time: str | None) -> int:
    slots_of_job = JobSlots(reader.store, open_for(reader.url), job, person())
    if skip:
        slot = float(round(moment(skip, "--skip")))
        slots_of_job.skip(slot)
        print(f"{job}: the slot {name_of(slot)} will not be run")
        return 0
    assert from_time
    row = slots_of_job.go_on_from(float(round(moment(from_time, "--from"))))
    print(f"{job} continues with {name_of(row.next_due)}; slots that ran are not run again")
    return 0


def _show_all(reader: StoreReader, since: float, as_json: bool) -> int:
    found = slots.lines(reader, since)
    if as_json:
        for line in found:
            print_json(line.facts())
        return 0
    if not found:
        print("no job has slots yet: write a schedule into nightlatch.toml, and start `nightlatch serve`")
        return 0
    table = [["job", "stage", "next", "last", "now", "skipped"]]
    for line in found:
        share = f"{100 * line.skipped:.1f} %"
        table.append([line.row.job, line.row.stage or UNATTENDED, _next(line.row), _last(line), _now(line), share])
    colours = ["", *(screen.RED if line.overdue else "" for line in found)]
    for text in screen.columns(table, elastic=(), colours=colours):
        print(text)
    for row in stages.earned(reader, [line.row for line in found]):
        print(f"{printable(row.job)} has earned its next stage: {advice.command('promote', row.job)}")
    return 0


def _next(row: Row) -> str:
    if row.paused:
        return "paused"
    return "by hand" if row.next_slot is None else screen.until(row.next_slot)


def _last(line: JobLine) -> str:
    return f"{line.last.outcome} {screen.ago(line.last.last)}" if line.last else "-"


def _now(line: JobLine) -> str:
    row, claim = line.row, line.running
    if row.paused:
        return _paused(row.paused)
    if claim and claim.held and APPROVER not in claim.held:
        return f"waits for {advice.command('approve', row.job)}"
    if claim and claim.again_at:
        return f"tries again {screen.until(claim.again_at)}"
    if claim:
        return f"{'runs' if claim.grant else 'starts'} on {claim.by}"
    if line.overdue:
        return "overdue"
    return f"{row.failures} failures in a row" if row.failures else ""


def _paused(pause: Pause) -> str:
    return f"paused by {pause.by}" + (f" until {screen.local(pause.until)}" if pause.until else "")


def _show_one(reader: StoreReader, job: str, since: float, as_json: bool) -> int:
    row, found = slots.ranges(reader, job, since)
    if row is None and not found:
        raise UsageError(f"the store knows no job {job!r}: {advice.command('slots')} lists those that it knows")
    if as_json:
        for record in found:
            print_json(slots.facts(job, record))
        return 0
    for record in found:
        print(f"  {screen.paint(_when(record), _COLOURS[record.outcome])}  {_sentence(record)}{_ending(record)}")
    print(summary(found))
    if row and (found_job := stages.configured().get(row.job)):
        print(f"stage: {stages.sentence(found_job, row)}")
    if row and row.paused:
        print(f"next: none, {_paused(row.paused)}")
    elif row and row.next_slot is not None:
        print(f"next: {screen.moment(row.next_slot)}")
    return 0


def _when(record: SlotRecord) -> str:
    first, last = screen.local(record.first), screen.local(record.last)
    return first if record.count == 1 else f"{first} to {last}"


def _ending(record: SlotRecord) -> str:
    run = f"  {advice.command('show', record.run)}" if record.run else ""
    return f", ended {screen.local(min(record.at, clock.wall()))}{run}" if record.outcome == RAN else ""


def _sentence(record: SlotRecord) -> str:
    """The outcome of the slots, without their time."""
    many = f" ({counted(record.count)} slots)" if record.count > 1 else ""
    if record.outcome == RAN:
        return f"ran on {record.host}"
    if record.outcome == COLLAPSED:
        return f"missed, collapsed into {name_of(record.slot)}{many}"
    return f"skipped: {record.reason}{many}"


def summary(records: list[SlotRecord]) -> str:
    """As in `640 slots: 619 ran, 8 collapsed, 13 skipped (2.0 % overlap)`."""
    found = slots.counts(records)
    total = sum(found.outcomes.values())
    words = ", ".join(f"{count:,} {word}" for word, count in found.outcomes.items())
    shares = ", ".join(f"{100 * count / total:.1f} % {reason}" for reason, count in found.reasons.items())
    return f"{'over ' if found.more else ''}{total:,} slots: {words}" + (f" ({shares})" if shares else "")
