"""A job's stage in a sentence, with what to type next; and which jobs have earned a promotion."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import place
from ..config.load import load
from ..core import advice
from ..core import row as rows
from ..core import stage as stages
from ..core.job import Job
from ..core.row import Row
from ..core.stage import MANUAL, SUPERVISED, UNATTENDED, WRITES
from ..errors import BadConfig, StoreUnreachable
from . import evidence
from .reader import StoreReader


def sentence(job: Job, row: Row | None) -> str:
    """What happens to the job's slots, its progress towards a promotion, and the next command."""
    stage = stages.of(row, job.stage)
    if stage == UNATTENDED:
        return "unattended: it runs alone"
    clean, needed = row.clean if row else 0, stages.needed(stage, job.promote_after)
    progress = f"{clean} of {needed} clean run{'' if needed == 1 else 's'}"
    if clean >= needed:
        return f"{stage}: {progress}; one stage up: {advice.command('promote', job.name)}"
    if stage == MANUAL:
        return f"manual: its slots are skipped; {progress}; run it: {advice.command('run', job.name)}"
    if job.holds == stages.NOTHING:
        return f"supervised: {progress}"
    what = "the results of its scheduled runs wait for" if job.holds == WRITES else "its slots are not started before"
    return f"{stage}: {what} {advice.command('approve', job.name)}; {progress}"


def configured() -> Mapping[str, Job]:
    """The jobs of the nightlatch.toml in use; none if it cannot be read."""
    try:
        file = place.find()
        return load(file).jobs if file else {}
    except BadConfig:
        return {}


def earned(reader: StoreReader, job_rows: list[Row]) -> list[Row]:
    """Jobs that may be promoted. No job is promoted automatically."""
    ready = [row for row in job_rows if row.stage in (MANUAL, SUPERVISED) and row.clean]
    jobs = configured() if ready else {}
    return [row for row in ready if row.job in jobs and evidence.may_be_promoted(reader, row, jobs[row.job])]


def all_rows(reader: StoreReader) -> list[Row]:
    """The jobs' rows; none while the store does not answer."""
    try:
        return [rows.read(cursor) for cursor in reader.store.cursors()]
    except StoreUnreachable:
        return []
