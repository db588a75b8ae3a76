"""Leases that nobody has used for long share one ref: every look transfers the names of all refs there are.

Once an hour a machine compares where the leases' refs stand with where they stood an hour ago. Those that did not
move, are free, have no gates and nothing begun, are deleted, in one push that lifts the floor to the highest of their
tokens: whoever makes such a name's ref anew begins above the floor, so no token is handed out twice.

One who has looked before that push and is paused must not make a ref with a token from then. It would have to be
paused for as long as a ref must have stood still, so it looks at the floor again when it took longer than `PAUSE`.
"""

from __future__ import annotations

import os

from ...errors import StoreUnreachable
from ...system import clock, durable, identity
from . import names, record
from .refs import PATIENCE, Change
from .repository import Move, Moved, PushRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .refs import Refs

UNUSED = 3600.0  # seconds that a ref must have stood still, by this machine's own clock
PAUSE = 600.0  # seconds

_FEW = 64  # refs that cost nobody anything
_AT_ONCE = 1000  # refs deleted by one push
_LONG_ENOUGH = 5.0  # seconds; what is left is done an hour later
_SEEN = "refs-seen"


def floor(refs: Refs) -> int:
    """As this process last saw it."""
    stands = refs.seen.get(names.FLOOR)
    return record.read_floor(stands.message) if stands else 0


def share(refs: Refs, folder: str, unused: float = UNUSED) -> None:
    """Look, at most once in `unused` seconds, and delete what was unused since the last look. What cannot be done now
    is left for the next time."""
    path = os.path.join(folder, _SEEN)
    before = _read(path, unused)
    if before is None:
        return
    try:
        there = refs.repository.look(f"{names.ROOT}*", timeout=PATIENCE)
        stands = {ref: oid for ref, oid in there.items() if names.lease_name(ref)}
        durable.replace(path, _snapshot(stands))
        unmoved = {ref: oid for ref, oid in stands.items() if before.get(ref) == oid}
        if len(stands) > _FEW and unmoved:
            _delete(refs, unmoved)
    except (StoreUnreachable, PushRefused, Moved, OSError):
        pass  # another machine does the same, the server takes no deletions, it is away, a disk is full: no harm


def _delete(refs: Refs, unmoved: dict[str, str]) -> None:
    until, left = clock.now() + _LONG_ENOUGH, list(unmoved)
    commits = refs.repository.commits(unmoved, timeout=PATIENCE)
    while left and clock.now() < until:
        chunk, left = left[:_AT_ONCE], left[_AT_ONCE:]
        free = {
            ref: standing
            for ref in chunk
            if ref in commits and (standing := record.read_lease(commits[ref].message)).is_idle
        }
        if not free:
            continue
        refs.look(names.FLOOR)
        highest = max(floor(refs), *(standing.token for standing in free.values()))
        change = Change(names.FLOOR, refs.seen[names.FLOOR], record.floor_message(highest))
        deleted = [Move(ref=ref, old=commits[ref].oid, new="") for ref in free]
        refs.push([change], PATIENCE, besides=deleted)
        for ref in free:
            refs.seen.pop(ref, None)


def _snapshot(stands: dict[str, str]) -> bytes:
    head = f"{identity.boot()} {identity.time_namespace()} {clock.now()}"
    return "\n".join([head, *(f"{oid} {ref}" for ref, oid in stands.items()), ""]).encode()


def _read(path: str, unused: float) -> dict[str, str] | None:
    """Where refs stood when this machine last looked; {} if that is not known; None if it was not long ago."""
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
