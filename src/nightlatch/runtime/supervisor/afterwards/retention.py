"""Automatic retention: once a day on each machine, a finished run removes old ones."""

from __future__ import annotations

import os
import sys

from ....core import duration
from ....system import clock, durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger

ENV, KEEP = "NIGHTLATCH_KEEP", "90d"

_STAMP = "pruned"  # a file: its mtime is when this machine last pruned
_DAY = 86400.0
_MOMENT = 2.0  # seconds that a finished run may spend on pruning; the next run does the rest


def keep_seconds(text: str = "") -> float | None:
    """How long runs are kept: by `text`, else the environment, else 90 days. None: for ever."""
    what, text = ("--keep", text) if text else (ENV, os.environ.get(ENV) or KEEP)
    return None if text == "none" else duration.parse(text, what=what)


def daily(store: Store, ledger: Ledger, by: str) -> None:
    """After a run: prune, unless this machine did so within a day. An error is printed, and fails nothing."""
    stamp = os.path.join(store.folder, _STAMP)
    try:
        keep = keep_seconds()  # first, so that every run complains about a bad setting, not only one a day
        try:
            if 0 <= clock.wall() - os.stat(stamp).st_mtime < _DAY:
                return
        except FileNotFoundError:
            _touch(stamp)  # a new store has nothing to prune
            return
        from . import pruning

        pruning.sweep(store.folder)
        _touch(stamp)  # before, not after: one run a day tries it, even if it fails
        if keep is not None and not pruning.prune(store, ledger, keep, by, within=_MOMENT).complete:
            os.utime(stamp, (0, 0))  # the next run goes on with it
    except Exception as error:  # noqa: BLE001 - the run is over, and nothing here may change how it ended
        print(f"nightlatch: old runs stay, since they could not be pruned: {error}", file=sys.stderr)


def _touch(stamp: str) -> None:
    durable.private_folder(os.path.dirname(stamp))
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(stamp)
