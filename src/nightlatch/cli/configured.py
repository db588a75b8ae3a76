"""Jobs of nightlatch.toml as commands start them: with flags over the file, for a slot, or for a run's next attempt."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping

from ..config import place
from ..config.load import load
from ..core import options, schedule
from ..core.job import REPORT, Job
from ..core.options import RUN, as_flag
from ..core.target import Each
from ..core.value import replace
from ..errors import BadOption
from ..ledger.records import RunRow
from ..system import clock, zone

LAST, NEXT = "last", "next"

# flags that also apply to a batch; its other settings are taken from the file only
_BATCH_FLAGS = ("key", "slot", "ttl", "wait", "grace", "env", "cwd", "keep_awake", "again", "new")


def configured_job(file: str, name: str, given: Mapping[str, object]) -> Job:
    """The job `name` of the file; the flags in `given` override its settings."""
    job = load(file).job(name)
    if isinstance(job.target, Each) and (other := [field for field in given if field not in _BATCH_FLAGS]):
        raise BadOption(f"{as_flag(other[0])}: {name} is a batch: set that in {file}", other[0])
    parsed = options.read(Job, _with_absolute_paths(given), RUN, as_flag)
    slot, tz = parsed.pop("slot", ""), parsed.pop("tz", job.tz)
    if {row.name for row in options.rows(Job, RUN).values() if row.defines} & parsed.keys():
        written = "\n".join(f"{field}={value!a}" for field, value in sorted(parsed.items()))
        parsed["defined_as"] = f"{job.defined_as}\nby hand:\n{written}"
    job = replace(job, **parsed)
    if slot:
        job = job.at(schedule.name_of(_slot(job, slot, tz)))
    return job.check()


def for_run(run: RunRow) -> Job | None:
    """The run's job in the nightlatch.toml that applies here, for another attempt; None if it has no such job."""
    file = place.find()
    found = load(file).jobs.get(run.job) if file else None
    return replace(found, key=run.key, due=run.slot) if found else None


def _with_absolute_paths(given: Mapping[str, object]) -> dict[str, object]:
    """The flags with absolute paths: they are typed relative to this folder, and the job may run in another."""

    def path(text: object) -> object:
        return os.path.abspath(text) if isinstance(text, str) and text != REPORT else text

    def target(text: object) -> object:
        source, equals, to = str(text).partition("=")
        return f"{source}={path(to)}" if equals and "://" not in to and not to.endswith("/") else text

    found = dict(given)
    for field, convert in (("cwd", path), ("input", path), ("progress", path), ("publish", target)):
        if field in found:
            value = found[field]
            found[field] = [convert(one) for one in value] if isinstance(value, list) else convert(value)
    return found


def _slot(job: Job, text: str, tz: str) -> int:
    """The slot that --slot names: `last` (the newest that is due), `next`, or a time."""
    if not job.schedule:
        raise BadOption(f"--slot {text}: {job.name} has no schedule, so it has no slots", "slot")
    slots, now = schedule.parse(job.schedule, zone.find(tz)), clock.wall()
    if text in (LAST, NEXT):
        return slots.newest(now) if text == LAST else slots.next(now)
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(
            f"--slot {text!r}: {job.name} has its schedule from nightlatch.toml. Write last, next, or the slot's time, "
            f"as in 2026-11-17T02:00",
            "slot",
        ) from None
    wanted = round((at if at.tzinfo else at.replace(tzinfo=zone.find(tz))).timestamp())
    if slots.newest(wanted) != wanted:
        near = f"{schedule.name_of(slots.newest(wanted))} and {schedule.name_of(slots.next(wanted))}"
        raise BadOption(f"--slot {text}: {job.name} is not due then; the slots before and after are {near}", "slot")
    return wanted
