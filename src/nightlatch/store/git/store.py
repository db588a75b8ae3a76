"""The verbs of a store, each one compare-and-swap push of the refs it changes.

A verb begins with what this process last saw, which saves a request when nobody else wrote: the push itself
compares. What it would refuse, it refuses only after a fresh look.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.model import Begun, Done, Granted, KnownGrants, Record
from ...core.passwords import hide_password
from ...core.tenure import request_timeout
from ...core.value import replace
from ...errors import Busy, LeaseLost
from ...system import clock, identity, storage
from .. import held
from ..polling import PollingWaiter
from . import idle, names, record, rows
from .done import KeyPlace
from .objects import Pack
from .record import StoredLease
from .refs import PATIENCE, TRIES, Change, Refs
from .remote import resolve
from .repository import Move, Moved, Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ...core.model import Holder, Takeover
    from ...core.protocols import ReleaseWaiter
    from ...core.row import Cursor
    from ...core.row import Move as RowMove
    from .objects import Commit

_SHORTEST = 0.25  # a git that has to start, connect and answer needs that much


def connect(where: str) -> GitStore:
    """The store in the remote that `where` means; asks git here about `git+origin`, and the remote nothing."""
    remote = resolve(where)
    folder = storage.folder_for(hide_password(f"git+{remote.url}"))
    repository = Repository(remote, folder)
    return GitStore(f"git+{repository.shown}", repository, folder)


class Key(NamedTuple):
    """A key to settle, and under which lease."""

    name: str
    grant: str
    scope: str
    key: str
    value: str
    input: str


class SettlePlan(NamedTuple):
    """How a key becomes done; without changes it is so already."""

    done: Done
    changes: list[Change]
    pack: Pack
    ttl: float


class GitStore:
    default_ttl = 600.0
    lists_begun = True  # each machine has a ledger of its own
    poll_every = 1.0

    def __init__(self, where: str, repository: Repository, folder: str) -> None:
        self.url = where
        self.folder = folder
        self.repository = repository
        self._refs = Refs(repository)

    @property
    def id(self) -> str:
        if names.STORE not in self._refs.seen:
            self._refs.look(names.STORE)
        while (stands := self._refs.seen[names.STORE]) is None:
            try:
                self._refs.push([Change(names.STORE, None, record.store_message(identity.new_id()))], PATIENCE)
            except Moved:
                self._refs.look(names.STORE)
        return record.read_store(stands.message)

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        def begun(before: tuple[Begun, ...], token: int, at: float) -> tuple[Begun, ...]:
            return Begun.add(before, replace(begin, host=holder.host, token=token, at=at)) if begin else before

        created, started = False, clock.now()

        def change(stands: StoredLease | None, version: str) -> StoredLease:
            nonlocal created
            now = clock.wall()
            until, packed, lowest = now + ttl, holder.pack(), int(now * 1000)
            created = stands is None
            if stands is None:
                floor = idle.floor(self._refs)
                lowest = max(lowest, floor + 1)
                return StoredLease(
                    token=lowest,
                    since=now,
                    grant=grant,
                    holder=packed,
                    ttl=ttl,
                    until=until,
                    past=KnownGrants.remember("", floor, grant) if floor else grant,
                    begun=begun((), lowest, now),
                )
            mine = replace(stands, grant=grant, holder=packed, ttl=ttl, until=until)
            if stands.grant == grant:
                return mine
            watched = over is not None and over.proven and (over.grant, over.version) == (stands.grant, version)
            if stands.grant and not watched:
                there = stands.record(name, version)
                raise Busy(held.sentence(there, name), there)
            past = KnownGrants.remember(stands.past, stands.token, grant)
            token = max(stands.token + 1, lowest)
            listed = begun(stands.begun, token, now)
            return replace(mine, token=token, previous=stands.token, since=now, past=past, begun=listed)

        self._forget_absence(name)
        stands, token = self._change(name, change, ttl), 0
        if created and clock.now() - started > idle.PAUSE:
            self._refs.look(names.FLOOR)
            if idle.floor(self._refs) >= stands.token:
                token = self.raise_token(name, idle.floor(self._refs), grant)
        return Granted(
            token=token or stands.token,
            previous=stands.previous,
            gates=stands.gates,
            known=KnownGrants.read(stands.past),
            begun=Begun.without(stands.begun, {stands.token}),
        )

    def renew(self, name: str, grant: str, ttl: float) -> None:
        self._change_mine(name, grant, lambda mine: replace(mine, ttl=ttl, until=clock.wall() + ttl), ttl)

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        def change(mine: StoredLease) -> StoredLease:
            return replace(mine, grant="", until=clock.wall(), begun=Begun.without(mine.begun, ended))

        self._change_mine(name, grant, change)
        self.repository.tidy()
        idle.share(self._refs, self.folder)

    def evict(self, name: str) -> bool:
        held_by_somebody = False

        def change(stands: StoredLease | None, _version: str) -> StoredLease | None:
            nonlocal held_by_somebody
            held_by_somebody = bool(stands and stands.grant)
            return replace(stands, grant="", until=clock.wall()) if stands and stands.grant else None

        self._change(name, change)
        return held_by_somebody

    def read(self, name: str) -> Record | None:
        ref = names.lease(name)
        self._refs.look(ref, names.STORE)
        return self._record(name, ref)

    def records(self) -> Iterator[Record]:
        found = {
            names.lease_name(ref): commit
            for ref, commit in self._refs.see(f"{names.ROOT}*", only=names.lease_name).items()
        }
        return (record.read_lease(found[name].message).record(name, found[name].oid) for name in sorted(found))

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        def change(stands: StoredLease | None, _version: str = "") -> StoredLease:
            now = clock.wall()
            # Above the clock too, as an acquire is: a store that forgot its grants may have handed out `above` + 1.
            lowest = max(above + 1, int(now * 1000))
            if stands is None:
                lowest = max(lowest, idle.floor(self._refs) + 1)
                return StoredLease(token=lowest, since=now, until=now)
            token, mine = max(stands.token + 1, lowest), stands.token if grant else -1
            begun = tuple(replace(entry, token=token) if entry.token == mine else entry for entry in stands.begun)
            # A person who raises it answers for all older marks.
            return replace(stands, token=token, past=stands.past if grant else "", begun=begun)

        if grant:
            return self._change_mine(name, grant, change).token
        self._forget_absence(name)
        return self._change(name, change).token

    def look(self, scope: str, key: str) -> Done | None:
        place = KeyPlace(scope, key)
        stands = self._refs.look(place.ref)
        return place.key_tree(self.repository, stands.oid if stands else "", PATIENCE).find()

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        key_of = Key(name, grant, scope, key, value, input)
        with self._refs.turn(names.lease(name)):
            for attempt in range(TRIES):
                plan = self._plan(key_of, fresh=attempt > 0)
                if plan is None:
                    continue
                try:
                    if plan.changes:
                        self._refs.push(plan.changes, self._patience(plan.ttl), plan.pack)
                except Moved:
                    continue
                return plan.done
        raise self._refs.crowded(name)

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        for key, value in keys.items():
            self.settle(name, grant, scope, key, value=value)

    def moves_to_settle(self, name: str, grant: str, scope: str, key: str, *, value: str) -> list[Move]:
        """The moves that make the key done, for a push that carries more than them; [] if it is done already."""
        with self._refs.turn(names.lease(name)):
            plan = self._plan(Key(name, grant, scope, key, value, ""), fresh=True)
            assert plan
            moves, new = self._refs.commits(plan.changes, plan.pack)
            for ref in new:
                self._refs.seen.pop(ref, None)  # somebody else makes the moves, or does not
        return moves

    def _plan(self, key: Key, *, fresh: bool) -> SettlePlan | None:
        """How to settle the key. None: what this process remembers is against it, so look first."""
        place, ref = KeyPlace(key.scope, key.key), names.lease(key.name)
        if fresh or ref not in self._refs.seen or place.ref not in self._refs.seen:
            self._refs.look(ref, place.ref)
        # A thread that settles under another lease may just have forgotten the keys' ref: then the push compares.
        lease, keys = self._refs.seen[ref], self._refs.seen.get(place.ref)
        mine = _stored_lease(lease)
        key_tree = place.key_tree(self.repository, keys.oid if keys else "", PATIENCE)
        before = key_tree.find()
        if mine is None or mine.grant != key.grant:
            if fresh:
                raise self._lost(key.name)
            return None
        if before:
            return SettlePlan(before.with_input(key.input), [], Pack(), mine.ttl) if fresh else None
        pack = Pack()
        done = Done(
            scope=key.scope, key=key.key, value=key.value, input=key.input, token=mine.token, at=round(clock.wall(), 3)
        )
        begun = tuple(entry for entry in mine.begun if (key.name, entry.key) != (key.scope, key.key))
        # The lease's ref moves too: only a ref that changes is compared, and all of it lands or nothing.
        changes = [
            Change(ref, lease, replace(mine, begun=begun).message(key.name)),
            Change(place.ref, keys, record.keys_message(), key_tree.add(done, pack)),
        ]
        return SettlePlan(done, changes, pack, mine.ttl)

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        found = rows.look(self._refs, jobs)
        return [row for row in found if due is None or row.wake <= due]

    def advance(self, moves: Sequence[RowMove]) -> list[bool]:
        return rows.advance(self._refs, moves)

    def register(self, name: str, grant: str, gate: str) -> bool:
        there = False

        def change(mine: StoredLease) -> StoredLease | None:
            nonlocal there
            there = gate in mine.gates
            return None if there else replace(mine, gates=tuple(sorted({*mine.gates, gate})))

        self._change_mine(name, grant, change)
        return not there

    def gates(self, name: str) -> tuple[str, ...]:
        ref = names.lease(name)
        self._refs.look(ref)
        stands = _stored_lease(self._refs.seen.get(ref))
        return stands.gates if stands else ()

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        there = False

        def change(stands: StoredLease | None, _version: str = "") -> StoredLease | None:
            nonlocal there
            there = stands is not None and gate in stands.gates
            return replace(stands, gates=tuple(g for g in stands.gates if g != gate)) if stands and there else None

        if grant:
            self._change_mine(name, grant, change)
        else:
            self._change(name, change)
        return there

    def listen(self, name: str) -> ReleaseWaiter:
        return PollingWaiter(every=self.poll_every, first=0.25)

    def may_expire_by_observation(self, record: Record) -> bool:
        """No clock is shared here, so watching is the rule."""
        return True

    def clock(self) -> float:
        return clock.wall()

    def close(self) -> None:
        self._refs.seen.clear()

    def _change_mine(
        self, name: str, grant: str, change: Callable[[StoredLease], StoredLease | None], ttl: float = 0.0
    ) -> StoredLease:
        def mine(stands: StoredLease | None, version: str) -> StoredLease | None:
            if stands is None or stands.grant != grant:
                there = stands.record(name, version) if stands else None
                raise LeaseLost(held.lost_sentence(there, name), reason="taken")
            return change(stands)

        return self._change(name, mine, ttl)

    def _change(
        self, name: str, change: Callable[[StoredLease | None, str], StoredLease | None], ttl: float = 0.0
    ) -> StoredLease:
        """Move a lease's ref by `change`, again from where it stands if another came first.

        `change` gets what stands and its version; it returns what shall stand (None: leave it), or raises.
        """
        ref = names.lease(name)
        with self._refs.turn(ref):
            fresh = False
            for _ in range(TRIES):
                if ref not in self._refs.seen:
                    self._refs.look(ref, names.STORE, names.FLOOR, timeout=self._patience(ttl))
                    fresh = True
                commit = self._refs.seen[ref]
                stands = _stored_lease(commit)
                try:
                    wanted = change(stands, commit.oid if commit else "")
                    if wanted is None and fresh:
                        return stands or StoredLease(token=0, since=0.0, until=0.0)
                except (Busy, LeaseLost):
                    if fresh:
                        raise
                    wanted = None
                if wanted is None:
                    self._refs.seen.pop(ref, None)  # so it is by what we remember; somebody may have written since
                    continue
                try:
                    self._refs.push([Change(ref, commit, wanted.message(name))], self._patience(ttl or wanted.ttl))
                except Moved:
                    continue
                return wanted
        raise self._refs.crowded(name)

    def _forget_absence(self, name: str) -> None:
        """That a name had no ref when this process last looked may be long ago: look at it and the floor again."""
        if self._refs.seen.get(names.lease(name)) is None:
            self._refs.seen.pop(names.lease(name), None)

    def _record(self, name: str, ref: str) -> Record | None:
        commit = self._refs.seen.get(ref)
        return record.read_lease(commit.message).record(name, commit.oid) if commit else None

    def _patience(self, ttl: float) -> float:
        return min(max(request_timeout(ttl), _SHORTEST), PATIENCE) if ttl else PATIENCE

    def _lost(self, name: str) -> LeaseLost:
        return LeaseLost(held.lost_sentence(self._record(name, names.lease(name)), name), reason="taken")


def _stored_lease(commit: Commit | None) -> StoredLease | None:
    return record.read_lease(commit.message) if commit else None
