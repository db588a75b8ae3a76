"""Deletes refs of leases that have long been unused, since every request to the remote transfers all refs' names.

Once an hour a machine compares the leases' refs with where they were an hour ago. It deletes those that did not move,
are free, have no gates and no begun keys, in one push that also raises the floor to the highest of their tokens. A
lease whose ref is made again starts above the floor, so no token is handed out twice.

A process that read the refs before that push, and was then paused, could make a ref with a token from that time. Only
a pause as long as `UNUSED` can do that, so a process that took longer than `PAUSE` reads the floor again.
"""

from __future__ import annotations

import os

from ...errors import StoreUnreachable
from ...system import clock, durable, identity
from . import names, record
from .refs import PATIENCE, RefChange, Refs
from .repository import Moved, PushRefused, RefMove

UNUSED = 3600.0  # seconds for which a ref must not have moved, by this machine's clock
PAUSE = 600.0  # seconds after which a process that has made a ref reads the floor again

_TOO_FEW = 64  # with this many refs of leases or fewer, deleting the unused ones is not worth a push
_AT_ONCE = 1000  # refs deleted by one push
_TIME_LIMIT = 5.0  # seconds that deleting may take; the rest is deleted an hour later
_SNAPSHOT_FILE = "refs-seen"


def floor(refs: Refs) -> int:
    """The highest token of any deleted ref, as this process last saw it."""
    commit = refs.last_seen.get(names.FLOOR)
    return record.read_floor(commit.message) if commit else 0


def delete_unused(refs: Refs, folder: str, unused: float = UNUSED) -> None:
    """At most once in `unused` seconds, delete the refs that did not move since the last time. What cannot be deleted
    now is left for the next time."""
    path = os.path.join(folder, _SNAPSHOT_FILE)
    before = _read(path, unused)
    if before is None:
        return
    try:
        found = refs.repository.look(f"{names.ROOT}*", timeout=PATIENCE)
        oids = {ref: oid for ref, oid in found.items() if names.lease_name(ref)}
        durable.replace(path, _snapshot(oids))
        unmoved = {ref: oid for ref, oid in oids.items() if before.get(ref) == oid}
        if len(oids) > _TOO_FEW and unmoved:
            _delete(refs, unmoved)
    except (StoreUnreachable, PushRefused, Moved, OSError):
        pass  # another machine does the same, the server refuses or is unreachable, a disk is full: later will do


def _delete(refs: Refs, unmoved: dict[str, str]) -> None:
    until, left = clock.now() + _TIME_LIMIT, list(unmoved)
    commits = refs.repository.commits(unmoved, timeout=PATIENCE)
    while left and clock.now() < until:
        chunk, left = left[:_AT_ONCE], left[_AT_ONCE:]
        free = {
            ref: lease for ref in chunk if ref in commits and (lease := record.read_lease(commits[ref].message)).is_idle
        }
        if not free:
            continue
        refs.look(names.FLOOR)
        highest = max(floor(refs), *(lease.token for lease in free.values()))
        change = RefChange(names.FLOOR, refs.last_seen[names.FLOOR], record.floor_message(highest))
        deleted = [RefMove(ref=ref, old=commits[ref].oid, new="") for ref in free]
        refs.push([change], PATIENCE, moves=deleted)
        for ref in free:
            refs.last_seen.pop(ref, None)


def _snapshot(oids: dict[str, str]) -> bytes:
    head = f"{identity.boot()} {identity.time_namespace()} {clock.now()}"
    return "\n".join([head, *(f"{oid} {ref}" for ref, oid in oids.items()), ""]).encode()


def _read(path: str, unused: float) -> dict[str, str] | None:
    """Where the refs were when this machine last looked; {} if unknown; None if it looked less than `unused` s ago."""
    try:
        with open(path, encoding="utf-8") as file:
            head, *lines = file.read().splitlines()
        here, _, at = head.rpartition(" ")
        age = clock.now() - float(at)
    except (OSError, ValueError):
        return {}
    if here != f"{identity.boot()} {identity.time_namespace()}":
        return {}
    return dict((ref, oid) for oid, _, ref in (line.partition(" ") for line in lines)) if age >= unused else None
