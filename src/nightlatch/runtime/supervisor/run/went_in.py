"""Facts about an attempt, for the journal entry of its start: when a job costs more from one run on, they show what
changed before. Its command, definition and inputs are recorded beside them."""

from __future__ import annotations

import os

from .... import __version__
from ....core import duration
from ....system import provenance
from ...shared import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.job import Job


def facts(job: Job, folder: str) -> dict[str, str]:
    """`folder`: the store's, where a program's version is remembered."""
    where = job.cwd or os.getcwd()
    path = dict(job.env).get("PATH") or os.environ.get("PATH", os.defpath)
    found = {"bounds": _bounds(job), "nightlatch": __version__}
    found |= provenance.program(job.command[0], where, path)
    if not job.workspace and (commit := provenance.commit(where)):
        found["commit"] = commit  # a workspace's commit is recorded when the workspace is made
    if job.version and (version := provenance.version(job.version, found, folder)):
        found["program_version"] = version
    if caller := trace.of_caller(os.environ):
        found["trace"] = caller
    return found


def tag(job: Job) -> str:
    """The tag that the job's usage is counted under, unless a report names another."""
    return ",".join(f"{name}={text}" for name, text in job.tags)


def _bounds(job: Job) -> str:
    times = {"timeout": job.timeout, "stall": job.stall}
    bounds = [f"{name}={duration.show(limit)}" for name, limit in times.items() if limit is not None]
    return " ".join([*bounds, *(str(cap) for cap in job.budget), f"retries={job.retries}"])
