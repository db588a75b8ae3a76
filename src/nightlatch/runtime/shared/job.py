"""A job made from the options of a front end, checked on this machine before anything is begun."""

from __future__ import annotations

import os

from ...core import options
from ...core.job import Job
from ...core.options import as_flag
from ...errors import BadOption
from ...system.light import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core.options import Names
    from ...core.target import Command, Function


def read(name: str, target: Command | Function, given: Mapping[str, object], where: str, names: Names = as_flag) -> Job:
    """The job from the options that the user set (`given`) in a front end (`where`); `names` writes an option's name as
    this front end does."""
    return checked_here(Job(name=name, target=target, **options.read(Job, given, where, names)).check(names), names)


def checked_here(job: Job, names: Names = as_flag) -> Job:
    """The same job; raises if a file or folder that it names does not exist."""
    if job.cwd and not job.workspace and not os.path.isdir(job.cwd):
        raise BadOption(f"{names('cwd')} {job.cwd}: there is no such folder", "cwd")
    for path in job.input:
        if not os.path.isfile(path):
            raise BadOption(f"{names('input')} {path}: there is no such file", "input")
    return job


def go_home(job: Job, store: str | None) -> str | None:
    """Change to the folder of the file that defines the job: the job runs there, and its paths are relative to it.
    Returns the store's URL as it is valid there."""
    if not job.file:
        return store
    from ...store import url
    from ...system import storage

    store_url = storage.absolute_store(url.resolve(store), os.getcwd())
    os.chdir(os.path.dirname(job.file))
    return store_url


def with_newest_slot(job: Job) -> Job:
    """The job with its newest due slot as its key, if it has a schedule."""
    if not job.slot or job.due:
        return job
    from ...core import schedule
    from ...system import clock
    from ...system.zone import find

    return job.at(schedule.name_of(schedule.parse(job.slot, find(job.tz)).newest(clock.wall())))


def definition(job: Job) -> str:
    """The hash of what the job is, recorded with every run."""
    return sha256(job.definition().encode()).hexdigest()
