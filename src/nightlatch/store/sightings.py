"""Expiry by observation, where clocks cannot be compared: for how long has this record been unchanged?

The answer is kept on disk, so that two firings of a cron line are enough to take over from a machine that is gone.
"""

from __future__ import annotations

import os

from ..core.model import Record
from ..system import clock, durable, identity

MARGIN = 1.25  # two machines' clocks may tick at slightly different rates


def lapsed(folder: str, record: Record) -> bool:
    """Has the record been unchanged for longer than its TTL, by this machine's clock? A version seen for the first time
    is watched from now on."""
    watched = watched_for(folder, record)
    if watched is None:
        durable.private_folder(os.path.join(folder, "seen"))
        durable.replace(_path(folder, record), f"{_version(record)}\n{clock.now()}".encode())
        return False
    return watched > record.ttl * MARGIN


def watched_for(folder: str, record: Record) -> float | None:
    """The seconds for which this machine has seen the record unchanged; None: it has not seen this version."""
    try:
        with open(_path(folder, record), encoding="utf-8") as file:
            version, _, seen_at = file.read().rpartition("\n")
        return clock.now() - float(seen_at) if version == _version(record) else None
    except (OSError, ValueError):
        return None


def _path(folder: str, record: Record) -> str:
    return os.path.join(folder, "seen", record.name.replace("/", "%"))


def _version(record: Record) -> str:
    return f"{record.grant} {record.version}\n{identity.boot()} {identity.time_namespace()}"
