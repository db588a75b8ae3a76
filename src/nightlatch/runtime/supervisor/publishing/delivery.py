"""One attempt's workspace, and what is published from it, for the pipeline of a run."""

from __future__ import annotations

import os

from ....core.job import Job
from ....core.model import Begun
from ....errors import UsageError
from ....ledger import kinds
from ....ledger.ledger import Ledger
from ....ledger.writer import Writer
from ...shared.leases.lease import Lease
from . import held
from .publish import Publication
from .targets import Publisher
from .workspace import Workspace


class Delivery:
    """Made before the lease is acquired, so that a bad target is found before any work."""

    workspace: Workspace | None = None
    path = ""  # where the command runs; "" before `begin`
    checked_earlier = False  # every earlier attempt was checked for what it has published

    def __init__(self, job: Job) -> None:
        self._job, self._source = job, None
        if job.workspace.startswith("git"):
            from .clone import source

            self._source = source(job.workspace)
        self.publication = Publication(job.publish, self._source)

    def begin(self, lease: Lease, ledger: Ledger, writer: Writer, elsewhere: list[Begun]) -> str:
        """Make the workspace. Returns "" if the work has to be done, or how an earlier attempt's work was published.
        `elsewhere`: attempts that other ledgers know of."""
        run = writer.run
        self._writer, self._publisher = writer, self._publisher_of(lease, writer)
        self.workspace = Workspace.make(lease.store.folder, f"{run.id}-{run.attempt}", self._source)
        self.path = os.path.join(self.workspace.path, self._job.cwd)
        writer.event(kinds.WORKSPACE, path=self.workspace.path, commit=self.workspace.commit or None)
        if run.attempt > 1 and self.publication.targets:
            recovered = self.publication.recover(ledger, self.workspace, writer, self._publisher)
            if recovered:
                return recovered
        for other in reversed(elsewhere):
            if self.publication.adopt(other, self.workspace, writer, self._publisher):
                return f"published by attempt {other.attempt} on {other.host}"
        self.checked_earlier = True
        if not os.path.isdir(self.path):
            raise UsageError(f"--cwd {self._job.cwd}: there is no such folder in the workspace")
        return ""

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """The command's environment in this workspace."""
        assert self.workspace
        environment = inherited | {"NIGHTLATCH_WORKSPACE": self.workspace.path}
        if self._source:
            from .clone import REPOSITORY_VARIABLES

            return {name: text for name, text in environment.items() if name not in REPOSITORY_VARIABLES}
        return environment

    def publish(self) -> None:
        """Publish to all targets; raises at the first that fails. Call it when the command has succeeded and all its
        processes have ended."""
        assert self.workspace
        self.publication.publish(self.workspace, self._writer, self._publisher)

    def hold(self, definition: str) -> None:
        """Instead of `publish`: journal what would land, and keep the workspace until a person has decided."""
        assert self.workspace
        held.plan(self.publication, self.workspace, self._writer, self._publisher, definition)

    def land_plan(self, lease: Lease, ledger: Ledger, writer: Writer, definition: str) -> str:
        """Publish an approved plan from the workspace that an earlier attempt left; returns how it was published."""
        publisher = self._publisher_of(lease, writer)
        return held.land(self.publication, self._source, ledger, writer, publisher, definition)

    def _publisher_of(self, lease: Lease, writer: Writer) -> Publisher:
        run = writer.run
        done = None if self._job.again else (self._job.name, run.key)
        return Publisher(lease=lease, run=run.id, job=self._job.name, done=done, attempt=run.attempt)

    def with_workspace(self, reason: str) -> str:
        """The reason of an unsuccessful run, with the path of its workspace."""
        if not self.workspace:
            return reason
        return f"{reason}{self._not_in_workspace(reason)}. Its workspace: {self.workspace.path}"

    def _not_in_workspace(self, reason: str) -> str:
        """A hint if the command is a script in the folder where the run was started, but not in the workspace."""
        program, _, problem = reason.rpartition(": ")
        if problem.startswith("chmod +x ") and self._source:
            return ", then commit and push it"
        if problem != "not found" or "/" not in program or os.path.isabs(program):
            return ""
        if not self._source:
            return f": a scratch workspace is empty, so name it by its whole path, {os.path.abspath(program)}"
        if not os.path.exists(program):
            return ""
        has = f"the branch {self._source.branch} as the remote has it" if self._source.remote else "what is committed"
        return f": the clone has {has}; commit{' and push' if self._source.remote else ''} it first"

    def end(self, *, keep: bool) -> None:
        if self.workspace is None:
            return
        if keep:
            self.workspace.close()
        else:
            self.workspace.remove()
