"""Expiry by observation, where clocks cannot be compared: for how long has this record been unchanged?

Kept on disk, so that two firings of a cron line are enough to take over from a machine that is gone.
"""

from __future__ import annotations

import os

from ..system import clock, durable, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.model import Record

MARGIN = 1.25  # two machines' clocks may tick at slightly different rates


def lapsed(folder: str, record: Record) -> bool:
    """Has the record been unchanged for longer than its TTL, by this machine's clock?"""
    path = os.path.join(durable.private_folder(os.path.join(folder, "seen")), record.name.replace("/", "%"))
    version = f"{record.grant} {record.version}"
    here = f"{identity.boot()} {identity.time_namespace()}"
    now = clock.now()
    try:
        with open(path, encoding="utf-8") as file:
            seen_version, seen_here, seen_at = file.read().split("\n")
    except (OSError, ValueError):
        seen_version = seen_here = seen_at = ""
    if (seen_version, seen_here) != (version, here):
        durable.replace(path, f"{version}\n{here}\n{now}".encode())
        return False
    return now - float(seen_at) > record.ttl * MARGIN
