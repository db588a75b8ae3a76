"""How a key becomes done: one push that moves the keys' ref, and the lease's ref with it."""

from __future__ import annotations

from typing import NamedTuple

from ...core.model import Done
from ...core.value import replace
from ...errors import LeaseLost
from ...system import clock
from .. import held
from . import names, record
from .done import KeyPlace
from .objects import NewObjects
from .refs import PATIENCE, RefChange, Refs


class KeyToSettle(NamedTuple):
    """A key, and the lease and grant under which it is to be settled."""

    name: str
    grant: str
    scope: str
    key: str
    value: str
    input: str


class SettlePlan(NamedTuple):
    """The changes that make a key done; no changes: it is done already."""

    done: Done
    changes: list[RefChange]
    new_objects: NewObjects
    ttl: float


def plan_to_settle(refs: Refs, key: KeyToSettle, *, fresh: bool) -> SettlePlan:
    """Raises LeaseLost if the grant does not hold the lease. Without `fresh` the plan rests on what
    this process remembers, so the caller asks again before it believes that the lease is lost or the key done."""
    place, ref = KeyPlace(key.scope, key.key), names.lease(key.name)
    if fresh or ref not in refs.last_seen or place.ref not in refs.last_seen:
        refs.look(ref, place.ref)
    # Another thread may just have removed the keys' ref from `last_seen`: it then counts as absent, and the push fails.
    lease, keys = refs.last_seen[ref], refs.last_seen.get(place.ref)
    mine = record.read_lease(lease.message) if lease else None
    if lease is None or mine is None or mine.grant != key.grant:
        current = mine.record(key.name, lease.oid) if lease and mine else None
        raise LeaseLost(held.lost_sentence(current, key.name), reason="taken")
    key_tree = place.key_tree(refs.repository, keys.oid if keys else "", PATIENCE)
    before = key_tree.find()
    if before:
        return SettlePlan(before, [], NewObjects(), mine.ttl)
    new_objects = NewObjects()
    done = Done(
        scope=key.scope, key=key.key, value=key.value, input=key.input, token=mine.token, at=round(clock.wall(), 3)
    )
    begun = tuple(entry for entry in mine.begun if (key.name, entry.key) != (key.scope, key.key))
    # The lease's ref moves too: a push compares only the refs that it changes, and it lands as a whole or not at all.
    changes = [
        RefChange(ref, lease, replace(mine, begun=begun).message(key.name)),
        RefChange(place.ref, keys, record.keys_message(), key_tree.add(done, new_objects)),
    ]
    return SettlePlan(done, changes, new_objects, mine.ttl)
