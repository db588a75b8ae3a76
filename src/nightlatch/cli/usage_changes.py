"""`nightlatch usage JOB --changes` and `--usual`."""

from __future__ import annotations

import time

from ..core import advice
from ..core.printable import printable
from ..errors import UsageError
from ..ledger import kinds, open_for
from ..observe import figures
from ..observe.changes import JobChanges, LevelChange, job_changes
from ..observe.levels import FEWEST
from ..observe.reader import StoreReader
from ..system.identity import person
from . import screen
from .arguments import Namespace
from .json_out import print_json
from .reading import existing_url, open_reader

_CHANGES_SHOWN = 12  # changes; --json has all of them
_LONGEST_FACT = 60  # characters of a fact


def show(reader: StoreReader, job: str, *, json: bool) -> int:
    report = job_changes(reader, job)
    if json:
        for change in report.changes:
            print_json({**change.facts(), "job": job})
        return 0
    if report.runs < FEWEST:
        print(f"{printable(job)} has {report.runs} runs that succeeded: it takes {FEWEST} to know its usual level")
        return 0
    _print_usual(report)
    for change in report.changes[:_CHANGES_SHOWN]:
        _print_change(change)
    if not report.changes:
        print("it has not left its usual level")
    for what, levels in report.levels.items():
        for outlier in levels.outliers[-3:]:
            text = f"{_amount(what, outlier.point.amount)}, {figures.times(outlier.factor)} the usual"
            print(f"one outlier {screen.local(outlier.point.at)}: {text}   {advice.command('show', outlier.point.run)}")
    if report.current:
        print(f"\nIs that the new usual level? {advice.command('usage', job, '--usual')}")
    return 0


def accept(args: Namespace) -> int:
    reader = open_reader(args.store)
    current = job_changes(reader, args.job).current
    if not current:
        raise UsageError(f"{printable(args.job)} is at its usual level: there is nothing to accept")
    what, first = " ".join(change.what for change in current), current[0].shift.first
    open_for(existing_url(args.store)).journal.note(args.job, kinds.USUAL, what=what, by=person(), run=first.run)
    levels = ", ".join(f"{_amount(change.what, change.shift.now)} ({change.what})" for change in current)
    print(f"the usual level of {printable(args.job)} is now {levels}")
    return 0


def _print_usual(report: JobChanges) -> None:
    usual = [
        f"{_amount(what, levels.usual)}" + ("" if what in ("usd", "seconds") else f" {what}")
        for what, levels in report.levels.items()
        if levels.usual is not None
    ]
    print(f"{printable(report.job)}: a usual run takes {', '.join(usual)}\n")


def _print_change(change: LevelChange) -> None:
    shift = change.shift
    when = time.strftime("%a %d %b %H:%M", time.localtime(shift.first.at))
    end = ", until" if shift.over else ""
    end += time.strftime(" %d %b", time.localtime(shift.over.at)) if shift.over else ""
    end += ", accepted as usual" if shift.settled else ""
    move = f"{_amount(change.what, shift.usual)} → {_amount(change.what, shift.now)}"
    colour = screen.DIM if end else screen.YELLOW
    print(screen.paint(f"{change.what} {figures.times(shift.factor)} since {when}: {move}{end}", screen.BOLD, colour))
    print(f"  first run      {shift.first.run}   {advice.command('show', shift.first.run)}")
    print(f"  last usual one {shift.last_usual.run}   {advice.command('show', shift.last_usual.run)}")
    for one in change.differences:
        print(f"  {printable(one.fact)}: {_short(one.before)} → {_short(one.after)}")
    if not change.differences:
        print("  none of the recorded facts differs: command, inputs, program, commit, models, host")
    if change.parts:
        total = sum(change.parts.values())
        more = ", ".join(f"{name} {figures.money(usd)}" for name, usd in change.parts.items())
        print(f"  of {figures.money(abs(total))} {'more' if total > 0 else 'less'}: {more}")
    print()


def _amount(what: str, amount: float) -> str:
    if what == "usd":
        return figures.money(amount)
    return figures.span(amount) if what == "seconds" else figures.count(amount)


def _short(fact: str) -> str:
    return screen.cut(printable(fact), _LONGEST_FACT) or "(none)"
