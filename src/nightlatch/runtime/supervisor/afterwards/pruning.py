"""Removing old, finished runs: on `nightlatch prune`, and automatically once a day (`retention`).

Done keys, effects and the items of a batch stay for ever: they make "run it again" safe. So do runs that need a person,
and succeeded runs whose holder died before it marked the key done. Output is kept on the machine where the run printed
it, so each machine removes its own, even if another machine pruned the run from a shared ledger.
"""

from __future__ import annotations

import os
import time

from ....core import statuses
from ....core.value import value
from ....system import cgroup, clock, durable, lifetime, treecopy
from ...shared.effect_records import ledger_is_per_machine
from ..publishing import workspace
from ..socket import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger

_DAY = 86400.0
_WRITING = 0.05  # seconds that a run with the log open may take to write its line


@value(frozen=True, kw_only=True)
class Removed:
    """What was removed, or in a dry-run would be."""

    runs: tuple[str, ...]
    entries: int  # of the journal
    slots: int  # records of what became of slots
    outputs: tuple[str, ...]  # folders
    workspaces: tuple[str, ...]  # folders
    complete: bool


def sweep(folder: str) -> None:
    """Remove what killed holders left on this machine: their cgroups and the folders of their sockets, whatever their
    store; and their locks in `folder`, the store's on this machine."""
    cgroup.sweep(_DAY)  # a younger cgroup may belong to a run that is starting
    folders.sweep()
    lifetime.sweep(folder, 30 * _DAY)


def prune(
    store: Store, ledger: Ledger, keep: float, by: str, *, dry: bool = False, within: float = float("inf")
) -> Removed:
    """Remove what ended over `keep` seconds ago: runs, their journal, records of slots; and on this machine their
    output and workspaces. After `within` seconds it stops; what it removed is then not `complete`."""
    folder = store.folder

    def done(job: str, key: str) -> bool:
        # With a ledger per machine, a key is marked done before its run is recorded as succeeded.
        return ledger_is_per_machine(store, ledger) or store.look(job, key) is not None

    pruned = ledger.prunable(keep, done=done) if dry else ledger.prune(keep, by, within, done=done)
    outputs = tuple(_outputs(folder, ledger, frozenset(pruned.runs), clock.wall() - keep))
    if not dry:
        for path in outputs:
            treecopy.remove(path)
        for log in ("runs.log.1", "runs.log"):
            _shorten(os.path.join(folder, log), clock.wall() - keep)
        _unpin(folder, ledger)
    workspaces = workspace.clean(folder, min(keep, workspace.KEPT_FOR), dry=dry)
    return Removed(
        runs=pruned.runs,
        entries=pruned.entries,
        slots=pruned.slots,
        outputs=outputs,
        workspaces=tuple(workspaces),
        complete=pruned.complete,
    )


def _unpin(folder: str, ledger: Ledger) -> None:
    """Unpin workspaces whose run is decided: the process that should have unpinned them was killed."""
    for name in workspace.pins(folder):
        run = ledger.run(name.rpartition("-")[0])
        if run is None or (run.held is None and not run.approved and run.status != statuses.RUNNING):
            workspace.unpin(os.path.join(folder, "workspaces", name))


def _outputs(folder: str, ledger: Ledger, gone: frozenset[str], before: float) -> list[str]:
    """Output of runs that were removed: by us, by another machine, or by a pruner that was killed before this step."""
    home = os.path.join(folder, "runs")
    found = []
    for entry in os.scandir(home) if os.path.isdir(home) else ():
        if entry.name in gone or (_changed(entry.path) < before and ledger.run(entry.name) is None):
            found.append(entry.path)
    return found


def _changed(path: str) -> float:
    try:
        return max(os.stat(place).st_mtime for place in (path, *(entry.path for entry in os.scandir(path))))
    except FileNotFoundError:
        return clock.wall()  # just removed by another process


def _shorten(log: str, before: float) -> None:
    """Remove old lines from the beginning of a log that other runs append to meanwhile.

    A run that opened the old file may still write to it: what it writes within a moment is carried over. (The verdict
    is in the ledger; the log is a copy for people.)
    """
    oldest = time.strftime("ts=%Y-%m-%dT%H:%M:%SZ", time.gmtime(before)).encode()
    try:
        fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        lines = file.readlines()
        young = [line for line in lines if line >= oldest]  # a line begins with its time
        if len(young) == len(lines):
            return
        durable.replace(log, b"".join(young))
        clock.sleep(_WRITING)
        late = file.read()
    if late:
        with open(log, "ab", buffering=0) as file:
            file.write(late)
