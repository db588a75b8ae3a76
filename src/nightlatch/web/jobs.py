"""Jobs: stage, the last 60 runs, the newest and the next one, the usual time, and the cost of 30 days."""

from __future__ import annotations

from datetime import date, timedelta
from statistics import median
from typing import Any

from markupsafe import Markup

from ..core import stage as stages
from ..core import statuses
from ..core.row import Row
from ..core.value import value
from ..ledger.records import RunRow
from ..observe.figures import count
from ..observe.reader import StoreReader
from ..observe.slots import is_overdue
from ..observe.stages import all_rows
from ..system import clock
from . import svg, words
from .upcoming import USUAL

RUNS = 60  # the last runs of a job that are drawn
DAYS = 30  # whose cost is shown
ORDERS = {"need": "what needs you first", "name": "by name", "cost": "by cost"}
_WEEKDAYS = {"*": " every day", "1-5": ", Mon to Fri", "MON-FRI": ", Mon to Fri"}
_MOST = 100  # jobs on a page
_KEPT = 60.0  # seconds before the costs are read again


@value(frozen=True, kw_only=True)
class KnownJob:
    """What the order of the jobs and the page's sentence depend on."""

    name: str
    stage: str
    paused: bool
    look: tuple[str, str, str]  # (shape, colour, word)
    when: float | None  # the last change of its newest run
    usd: float


@value(frozen=True, kw_only=True)
class JobRow:
    known: KnownJob
    schedule: str
    strip: Markup
    next: float | None
    takes: float  # seconds, usually


def page(reader: StoreReader, order: str, after: str = "") -> dict[str, Any]:
    """One page of jobs in this order, beginning after the job `after`."""
    history = reader.ledger.history
    rows = {row.job: row for row in all_rows(reader)}
    today = date.fromisoformat(history.day(clock.wall()))
    since = (today - timedelta(days=DAYS - 1)).isoformat()
    usd = reader.cached(("usd of jobs", since), _KEPT, lambda: dict(history.usd_by("job", since=since)))
    names = sorted({*history.jobs(), *rows})
    newest = reader.ledger.newest_of(names)
    found = [
        one for name in names if (one := _known(reader, name, newest.get(name), rows.get(name), usd.get(name, 0.0)))
    ]
    if order == "cost":
        found.sort(key=lambda one: (-one.usd, one.name))
    elif order != "name":
        urgency = (words.DOUBT, words.BAD, words.WAIT)
        found.sort(key=lambda one: (urgency.index(one.look[1]) if one.look[1] in urgency else 9, one.name))
    first = next((place + 1 for place, one in enumerate(found) if one.name == after), 0)
    on_page = found[first : first + _MOST]
    strips = history.newest_outcomes_of([one.name for one in on_page], RUNS)
    shown = [_row(one, rows.get(one.name), strips[one.name], history.zone) for one in on_page]
    return {
        "jobs": shown,
        "in_all": len(found),
        "order": order,
        "orders": ORDERS,
        "sentence": sentence(found),
        "days": DAYS,
        "more": shown[-1].known.name if first + _MOST < len(found) else "",
        "left": len(found) - first - len(shown),
    }


def sentence(found: list[KnownJob]) -> tuple[list[tuple[str, str]], str]:
    """As in: 9 run unattended, 2 are supervised, 1 is paused. Returns these parts with their colours, and a sentence
    about the jobs whose last run did not succeed."""
    if not found:
        return [("There are no jobs yet", "")], ""
    paused = [one for one in found if one.paused]
    others = [one for one in found if not one.paused]
    parts: list[tuple[str, str]] = []
    for stage, one, many in (
        (stages.UNATTENDED, "runs unattended", "run unattended"),
        (stages.SUPERVISED, "is supervised", "are supervised"),
        (stages.MANUAL, "is manual", "are manual"),
    ):
        if number := sum(job.stage == stage for job in others):
            colour = "" if stage == stages.UNATTENDED else words.WAIT
            parts.append((f"{count(number)} {one if number == 1 else many}", colour))
    if paused:
        parts.append((f"{count(len(paused))} {'is' if len(paused) == 1 else 'are'} paused", ""))
    bad = [one.name for one in found if one.look[1] in (words.BAD, words.DOUBT)]
    named = f"{', '.join(bad[:5])}{' …' if len(bad) > 5 else ''}"
    return parts, f"{len(bad)} of them did not succeed last time: {named}." if bad else ""


def _known(reader: StoreReader, name: str, newest: RunRow | None, row: Row | None, usd: float) -> KnownJob | None:
    if newest is None and row is None:
        return None  # not a job: the chain of effects outside of jobs
    look = words.look_of(newest, reader.status(newest)) if newest else ("dot", words.IDLE, "never ran")
    return KnownJob(
        name=name,
        stage=stages.of(row, "") if row else stages.UNATTENDED,
        paused=bool(row and row.paused),
        look=words.look("overdue") if row is not None and is_overdue(row, clock.wall()) else look,
        when=newest.changed if newest else None,
        usd=usd,
    )


def _row(known: KnownJob, row: Row | None, strip: list[tuple[float, str, float]], zone: str) -> JobRow:
    top = max((elapsed for _, _, elapsed in strip), default=0.0) or 1.0
    well = sum(status == statuses.SUCCEEDED for _, status, _ in strip)
    return JobRow(
        known=known,
        schedule=schedule_of(row, zone),
        strip=svg.strip(
            [(words.look(status)[1], elapsed / top) for _, status, elapsed in strip],
            label=f"{well} of the last {len(strip)} runs succeeded",
        ),
        next=row.next_slot if row else None,
        takes=median([took for _, status, took in strip if status == statuses.SUCCEEDED][-USUAL:] or [0.0]),
    )


def schedule_of(row: Row | None, ledger_zone: str = "UTC") -> str:
    if row is None or not row.schedule:
        return "started by hand or by cron"
    *parts, zone = row.schedule.split("\n")
    elsewhere = f" ({zone})" if zone and zone.removeprefix("Etc/") != ledger_zone.removeprefix("Etc/") else ""
    return f"{', '.join(map(_in_words, parts))}{elsewhere}"


def _in_words(schedule: str) -> str:
    """02:00 every day; a less simple schedule stays as it is written."""
    match schedule.split():
        case [minute, hour, "*", "*", days] if minute.isdecimal() and hour.isdecimal() and days in _WEEKDAYS:
            return f"{int(hour):02}:{int(minute):02}{_WEEKDAYS[days]}"
        case [minute, "*", "*", "*", "*"] if minute.isdecimal():
            return f"every hour, {int(minute)} past" if int(minute) else "every hour"
    return schedule
