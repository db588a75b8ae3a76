"""What a run is to publish once somebody approves it.

    plan (after the command succeeded) → … the approval … → land (by another attempt, from the same workspace)

A plan names what would land at each target, by its digest or commit, and what landed there last. The attempt that
publishes it first checks that none of this has changed: only what the person has looked at may land.
"""

from __future__ import annotations

import os

from ....core import advice
from ....errors import Conflict
from ....ledger import kinds
from ....system import durable, treecopy
from . import workspace as workspaces
from .publish import earlier_intents
from .push_target import PushTarget
from .targets import CommandFolder
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from .clone import Source
    from .publish import Publication, Target
    from .targets import Facts, Publisher


def plan(publication: Publication, workspace: Workspace, writer: Writer, publisher: Publisher, definition: str) -> None:
    """Journal the plan. The workspace is pinned first, so that no clean-up removes it."""
    workspaces.pin(workspace.path)
    common = {"attempt": writer.run.attempt, "workspace": workspace.path, "definition": definition}
    found = [(target, target.planned(workspace, publisher)) for target in publication.targets]
    for target, facts in found:
        writer.event(kinds.PLANNED, target=target.gate.url, **common, **facts)


def planned(ledger: Ledger, run: str) -> dict[str, Facts]:
    """The newest plan of a run: what it says of each target, by the target's URL."""
    entries = [entry.facts for entry in ledger.journal.of_run(run) if entry.kind == kinds.PLANNED]
    return {facts["target"]: facts for facts in entries if facts["attempt"] == entries[-1]["attempt"]}


def release(ledger: Ledger, run: str) -> None:
    """Unpin the workspace of a plan that has landed or never will, so that a clean-up may remove it."""
    for path in {facts["workspace"] for facts in planned(ledger, run).values()}:
        workspaces.unpin(path)


def discard(ledger: Ledger, run: str) -> None:
    """Remove the workspace of a plan that was refused or has expired."""
    for path in {facts["workspace"] for facts in planned(ledger, run).values()}:
        _remove(path)


def land(
    publication: Publication,
    source: Source | None,
    ledger: Ledger,
    writer: Writer,
    publisher: Publisher,
    definition: str,
) -> str:
    """Publish what has not landed yet of an approved plan; returns how it was published. `Conflict`: something has
    changed since the plan was made, and nothing more is published."""
    run, plans = writer.run, planned(ledger, writer.run.id)
    path = next(iter(plans.values()))["workspace"]
    again = f"Do the work again: {advice.command('retry', run.id)}. The workspace: {path}"
    if any(facts["definition"] != definition for facts in plans.values()):
        raise Conflict(f"the job was edited after its plan was made, so the plan does not land. {again}")
    if plans.keys() != {target.gate.url for target in publication.targets}:
        raise Conflict(f"the job publishes to other places than its plan. {again}")
    missing = _missing_targets(publication, source, ledger, writer, publisher)
    if not missing:
        _remove(path)
        return "published by an attempt before this one"
    for target in missing:
        if target.moved(plans[target.gate.url]):
            raise Conflict(f"{target.gate.url} was written to by another run after the plan was made. {again}")
    old = Workspace.left_at(path)
    if old is None:
        raise Conflict(f"the workspace of the plan is gone, or in use, so nothing is published. {again}")
    staging = os.path.join(durable.private_folder(os.path.join(publisher.lease.store.folder, "staged")), run.id)
    treecopy.remove(staging)
    os.mkdir(staging, 0o700)
    try:
        for target in missing:
            facts = plans[target.gate.url]
            same = target.restore(facts, old) if isinstance(target, PushTarget) else target.copy_to(facts, old, staging)
            if not same:
                what = facts.get("from") or "its commit"
                raise Conflict(f"{what} was changed in the workspace after the plan was made. {again}")
        publication.land_targets(missing, old, writer, publisher, CommandFolder(path=staging))
        workspaces.unpin(path)
        old.remove()
    finally:
        treecopy.remove(staging)
        old.close()
    return "approved"


def _missing_targets(
    publication: Publication, source: Source | None, ledger: Ledger, writer: Writer, publisher: Publisher
) -> list[Target]:
    """The targets where the plan has not landed yet. What an earlier approved attempt has published is adopted."""
    run = writer.run
    intents, outcomes = earlier_intents(ledger, run.id)
    fresh: Workspace | None = None
    missing: list[Target] = []
    try:
        for target in publication.targets:
            url = target.gate.url
            if outcomes.get(url) == kinds.PUBLISHED:
                continue
            if isinstance(target, PushTarget) and url in intents and fresh is None:
                fresh = Workspace.make(publisher.lease.store.folder, f"{run.id}-{run.attempt}", source)
            how = _landed(target, intents[url], fresh) if url in intents else ""
            if not how:
                missing.append(target)
                continue
            writer.event(kinds.PUBLISHED, attempt=intents[url]["attempt"], target=url, adopted=True)
    finally:
        if fresh:
            fresh.remove()
    return missing


def _landed(target: Target, intent: Facts, fresh: Workspace | None) -> str:
    if isinstance(target, PushTarget):
        assert fresh
        return target.landed(intent, fresh)
    return target.landed(intent, None)


def _remove(path: str) -> None:
    workspaces.unpin(path)
    if found := Workspace.left_at(path):
        found.remove()
