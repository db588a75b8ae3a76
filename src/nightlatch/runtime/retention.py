"""Retention: what is old and over goes, when somebody says `nightlatch prune`, and by itself once a day.

Done keys, effects and the steps of a batch stay for ever: with them "run it again" is safe. So does whatever waits
for a person. Output is kept on the machine it was printed on, so each machine removes its own, also of runs that
another one has pruned in a ledger they share.
"""

from __future__ import annotations

import os
import sys

from ..core import duration
from ..core.value import value
from ..system import clock, durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.ledger import Ledger

ENV, KEEP = "NIGHTLATCH_KEEP", "90d"

_WRITING = 0.05  # seconds that one who has opened the log may take to write its line
_STAMP = "pruned"  # its time says when this machine has pruned last
_DAY = 86400.0
_MOMENT = 2.0  # seconds that a finished run may wait for it; the rest is the next one's


@value(frozen=True, kw_only=True)
class Removed:
    """What is gone, or with a dry run would be."""

    runs: tuple[str, ...]
    entries: int  # of the journal
    outputs: tuple[str, ...]  # folders, as are the workspaces
    workspaces: tuple[str, ...]
    complete: bool


def keep_seconds(text: str = "") -> float | None:
    """How long runs are kept: as `text` says, else the environment, else 90 days. None: for ever."""
    text = text or os.environ.get(ENV) or KEEP
    return None if text == "none" else duration.parse(text, what=f"keep (--keep, {ENV})")


def daily(folder: str, ledger: Ledger, by: str) -> None:
    """After a run: prune, unless this machine has within a day. What goes wrong is told, and fails nothing."""
    stamp = os.path.join(folder, _STAMP)
    try:
        try:
            if 0 <= clock.wall() - os.stat(stamp).st_mtime < _DAY:
                return
        except FileNotFoundError:
            _touch(stamp)  # a new store has nothing to prune
            return
        keep = keep_seconds()
        _touch(stamp)  # before, not after: one run is enough to do it, and one that fails at it is enough for a day
        if keep is not None and not prune(folder, ledger, keep, by, within=_MOMENT).complete:
            os.utime(stamp, (0, 0))
    except Exception as error:  # noqa: BLE001 - the run is over, and nothing here may change how it ended
        print(f"nightlatch: old runs stay: {error}. To see why: nightlatch prune", file=sys.stderr)


def prune(
    folder: str, ledger: Ledger, keep: float, by: str, *, dry: bool = False, within: float = float("inf")
) -> Removed:
    """Remove what ended over `keep` seconds ago: runs, their journal, their output and workspaces on this machine."""
    from . import workspace

    pruned = ledger.prunable(keep) if dry else ledger.prune(keep, by, within)
    outputs = tuple(_outputs(folder, ledger, frozenset(pruned.runs), clock.wall() - keep))
    if not dry:
        from ..system import treecopy

        for path in outputs:
            treecopy.remove(path)
        _shorten(os.path.join(folder, "runs.log"), clock.wall() - keep)
    workspaces = workspace.clean(folder, min(keep, workspace.KEPT_FOR), dry=dry)
    return Removed(
        runs=pruned.runs,
        entries=pruned.entries,
        outputs=outputs,
        workspaces=tuple(workspaces),
        complete=pruned.complete,
    )


def _outputs(folder: str, ledger: Ledger, gone: frozenset[str], before: float) -> list[str]:
    """Kept output of runs that are gone: by us, by another machine, or by one that was killed before it came here."""
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
        return clock.wall()  # somebody is at it


def _shorten(log: str, before: float) -> None:
    """Take old lines off the beginning of a log that others append to meanwhile.

    Whoever opened it before the new one stood there may still write to the old one: what comes within a moment
    is carried over. (A verdict is in the ledger; the log is a copy for people.)
    """
    import time

    first = time.strftime("ts=%Y-%m-%dT%H:%M:%SZ", time.gmtime(before)).encode()
    try:
        fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        lines = file.readlines()
        young = [line for line in lines if line >= first]  # a line begins with its time
        if len(young) == len(lines):
            return
        durable.replace(log, b"".join(young))
        clock.sleep(_WRITING)
        late = file.read()
    if late:
        with open(log, "ab", buffering=0) as file:
            file.write(late)


def _touch(stamp: str) -> None:
    durable.private_folder(os.path.dirname(stamp))
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(stamp)
