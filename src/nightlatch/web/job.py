"""Job: its runs, its slots, the evidence for its promotion, its definitions, and what people decided."""

from __future__ import annotations

from typing import Any

from ..core import advice, statuses
from ..core import stage as stages
from ..core.job import Job
from ..core.row import Row
from ..core.schedule import name_of
from ..errors import UsageError
from ..observe import evidence, run_facts, slots, verdict
from ..observe.changes import job_changes
from ..observe.figures import times
from ..observe.reader import StoreReader
from ..observe.run_views import recent
from ..observe.stages import configured
from ..observe.timeline import sentence
from ..system import clock
from . import svg, words
from .buttons import GO, Button
from .jobs import RUNS, schedule_of
from .words import Calendar

_RUNS = 30  # rows of the table
_SLOTS = 40  # slot records that are shown
_DAYS = 30  # whose slots are read


def page(reader: StoreReader, calendar: Calendar, name: str) -> dict[str, Any]:
    row, records = slots.ranges(reader, name, clock.wall() - _DAYS * 86400)
    runs = recent(reader, job=name, limit=_RUNS)
    refused = reader.ledger.refused_starts.of(name)
    if not runs and row is None and not refused:
        raise UsageError(f"there is no job {name!r}")
    strip = reader.ledger.history.series(name, most=RUNS)
    well = sum(one.status == statuses.SUCCEEDED for one in strip)
    changes = job_changes(reader, name, "usd")
    top, paid = max((one.elapsed for one in strip), default=0.0) or 1.0, [one.amounts.usd for one in strip]
    change = next((one for one in changes.current if one.shift.factor > 1), None)
    dearer = None
    if change:
        since = calendar.date(change.shift.first.at)
        dearer = verdict.Dearer(job=name, factor=change.shift.factor, since=since)
    costly = [index for index, one in enumerate(strip) if change and one.at >= change.shift.first.at]
    job = configured().get(name)
    stage = stages.of(row, job.stage if job else "")
    return {
        "name": name,
        "sentence": verdict.job(name, runs=len(strip), well=well, dearer=dearer).sentence.partition("; "),
        "row": row,
        "stage": stage,
        "schedule": schedule_of(row, reader.ledger.history.zone),
        "next": row.next_slot if row else None,
        "strip": svg.strip(
            [(words.look(one.status)[1], one.elapsed / top) for one in strip],
            label=f"The last {len(strip)} runs, height: time it took",
        ),
        "cost": svg.spark(paid, over=costly, label=f"Dollars used by the last {len(paid)} runs") if any(paid) else "",
        "since": change.shift.first.at if change else None,
        "factor": times(change.shift.factor) if change else "",
        "runs": runs,
        "slots": list(reversed(records))[:_SLOTS],
        "slot_name": name_of,
        "evidence": evidence.findings(reader, row, job) if row and job and stage != stages.UNATTENDED else [],
        "buttons": _buttons(row, job, stage),
        "terminal_command": advice.command("run", name) if job else advice.command("show", name),
        "refused": [(one.last, run_facts.refused_times(one)) for one in refused],
        "decided": [(entry.at, sentence(entry)) for entry in reader.ledger.journal.rare_entries(job=name, most=20)],
        "definitions": [row.definition, *row.before][:8] if row and row.definition else [],
    }


def _buttons(row: Row | None, job: Job | None, stage: str) -> list[Button]:
    found = [Button(label="Run now", action="run", fields=(("job", job.name),))] if job else []
    if row is None:
        return found
    about = (("job", row.job), ("seen", row.id))  # the row as it was when the page was drawn
    if row.paused:
        found.append(Button(label="Unpause", action="unpause", kind=GO, fields=about))
    else:
        found.append(Button(label="Pause", action="pause", fields=about))
    if row.next_slot is not None:
        found.append(
            Button(label="Skip the next slot", action="skip", fields=(*about, ("slot", name_of(row.next_slot))))
        )
    if job and stage != stages.UNATTENDED:
        found.append(Button(label=f"Promote to {stages.up(stage)}", action="promote", fields=about))
    return found
