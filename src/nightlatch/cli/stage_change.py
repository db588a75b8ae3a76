"""What `promote` and `demote` share."""

from __future__ import annotations

from ..config import place
from ..config.load import load
from ..core import stage as stages
from ..core.job import Job
from ..core.printable import printable
from ..core.row import Row
from ..errors import UsageError
from ..ledger import open_for
from ..observe.reader import StoreReader
from ..runtime.supervisor.run import counting
from ..system.identity import new_id, person
from .json_out import print_json
from .reading import open_reader


def named_job(store: str | None, name: str) -> tuple[StoreReader, Job, Row]:
    """The reader, the job of the nightlatch.toml that applies here, and its row, with every ended run counted."""
    file = place.find()
    job = load(file).jobs.get(name) if file else None
    if job is None:
        where = f"in {file}" if file else "here: there is no nightlatch.toml"
        raise UsageError(f"there is no job {printable(name)} {where}")
    reader = open_reader(store)
    ledger = open_for(reader.url)
    counting.ensure_row(reader.store, ledger, job)
    counting.count_uncounted(reader.store, ledger, name, job.stage)
    return reader, job, counting.ensure_row(reader.store, ledger, job)


def change(reader: StoreReader, job: Job, was: str, stage: str, *, why: str, forced: bool = False) -> Row:
    """Move the job from the stage `was` to `stage` and journal it; raises if its stage is no longer `was`."""
    store, by = reader.store, person()

    def changed(row: Row) -> Row:
        now = stages.of(row, job.stage)
        if now != was:
            raise UsageError(f"{job.name} is already {now}: nothing was changed")
        return stages.changed(row, stage, was, by=by, why=why, at=store.clock(), id=new_id()[:12], forced=forced)

    return counting.change_stage(store, open_for(reader.url), job.name, changed)


def report(job: Job, stage: str, was: str, *, as_json: bool, **more: object) -> int:
    """Print the job's new stage."""
    if as_json:
        print_json({"version": 1, "job": job.name, "stage": stage, "was": was, **more})
    else:
        print(f"{job.name} is {stage} now: {_meaning(job, stage)}")
    return 0


def _meaning(job: Job, stage: str) -> str:
    """What a due slot becomes in a stage, and what to type next."""
    if stage == stages.MANUAL:
        return f"its slots are skipped; run it by hand: nightlatch run {job.name}"
    if stage == stages.UNATTENDED:
        return "its slots run without you"
    if job.holds == stages.NOTHING:
        return "its slots run, and count as evidence"
    what = "what a slot's run produces is published" if job.holds == stages.WRITES else "a due slot is started"
    return f"{what} only when you approve it: nightlatch approve {job.name}"
