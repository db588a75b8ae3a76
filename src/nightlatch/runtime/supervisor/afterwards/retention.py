"""Retention by itself: a run that has finished removes what is old and over, once a day on each machine."""

from __future__ import annotations

import os
import sys

from ....core import duration
from ....system import cgroup, clock, durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger

ENV, KEEP = "NIGHTLATCH_KEEP", "90d"

_STAMP = "pruned"  # its time says when this machine has pruned last
_DAY = 86400.0
_MOMENT = 2.0  # seconds that a finished run may wait for it; the rest is the next one's


def keep_seconds(text: str = "") -> float | None:
    """How long runs are kept: as `text` says, else the environment, else 90 days. None: for ever."""
    what, text = ("--keep", text) if text else (ENV, os.environ.get(ENV) or KEEP)
    return None if text == "none" else duration.parse(text, what=what)


def daily(store: Store, ledger: Ledger, by: str) -> None:
    """After a run: prune, unless this machine has within a day. What goes wrong is told, and fails nothing."""
    stamp = os.path.join(store.folder, _STAMP)
    try:
        keep = keep_seconds()  # first: a setting that is not understood is told by every run, not once a day
        try:
            if 0 <= clock.wall() - os.stat(stamp).st_mtime < _DAY:
                return
        except FileNotFoundError:
            _touch(stamp)  # a new store has nothing to prune
            return
        from . import pruning

        cgroup.sweep(_DAY)  # a young one may be of a run that is just being started
        _touch(stamp)  # before, not after: one run is enough to do it, and one that fails at it is enough for a day
        if keep is not None and not pruning.prune(store, ledger, keep, by, within=_MOMENT).complete:
            os.utime(stamp, (0, 0))
    except Exception as error:  # noqa: BLE001 - the run is over, and nothing here may change how it ended
        print(f"nightlatch: old runs stay, since they could not be pruned: {error}", file=sys.stderr)


def _touch(stamp: str) -> None:
    durable.private_folder(os.path.dirname(stamp))
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(stamp)
