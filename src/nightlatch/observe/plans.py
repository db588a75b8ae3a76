"""A run that waits for an approval, its planned writes, and what these change."""

from __future__ import annotations

import os

from ..core import advice, statuses
from ..core.value import value
from ..errors import UsageError
from ..gates.worktree import Worktree
from ..ledger.records import RunRow
from ..runtime.supervisor.publishing.guard import guard_of
from ..runtime.supervisor.publishing.held import planned
from ..runtime.supervisor.run.rows import read_row
from .reader import StoreReader


@value(frozen=True, kw_only=True)
class PlannedWrite:
    """One target of a plan."""

    target: str
    source: str = ""  # a path in the workspace; "" if `commit` is published
    size: int = 0
    commit: str = ""
    base: str = ""
    workspace: str = ""

    def facts(self) -> dict[str, object]:
        named = {"target": self.target, "workspace": self.workspace}
        return {**named, "commit": self.commit} if self.commit else {**named, "from": self.source, "size": self.size}


def waiting(reader: StoreReader, what: str) -> RunRow:
    """The run with the id `what`; or, of the job `what`, one that waits for approval, or is approved but not landed."""
    run = reader.ledger.run(what)
    if run:
        return run
    held = reader.ledger.held(what)
    if held:
        return held[-1]
    for one in reader.ledger.history.runs(job=what, limit=20):
        if one.approved and one.status not in (*statuses.NEEDS_PERSON, statuses.SUCCEEDED, statuses.CANCELLED):
            return one
    row = read_row(reader.store, what)
    claim = row.claim if row and row.claim and row.claim.is_open else None
    if claim and claim.held and claim.held["host"]:
        there = advice.command("approve", claim.held["run"])
        raise UsageError(
            f"{what} waits for an approval on {claim.held['host']}, where its workspace is. Type there: {there}"
        )
    look = advice.command("slots") if row else advice.command("runs")
    raise UsageError(f"no run or job {what!r} waits for an approval. Look: {look}")


def writes(reader: StoreReader, run: RunRow) -> list[PlannedWrite]:
    return [
        PlannedWrite(
            target=target, source=facts.get("from", ""), size=int(facts.get("size", 0)),
            commit=facts.get("commit", ""), base=facts.get("base", ""), workspace=facts["workspace"],
        )
        for target, facts in planned(reader.ledger, run.id).items()
    ]  # fmt: skip


def changes(write: PlannedWrite, *, whole: bool = False) -> str:
    """What a commit changes, from git: a summary, or the whole diff. An agent wrote the text: make it printable
    before showing it."""
    if not write.commit or not os.path.isdir(write.workspace):
        return ""
    work = Worktree(write.workspace, guard=guard_of(write.workspace))
    if not write.base:
        return work.run("show", "--format=", *([] if whole else ["--stat"]), write.commit)[1]
    return work.run("diff", *([] if whole else ["--stat"]), write.base, write.commit)[1]
