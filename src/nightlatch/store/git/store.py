"""The verbs of a store. Each is one compare-and-swap push of the refs that it changes.

A verb starts from what this process last saw, which saves a request if nobody else wrote; the push itself compares. A
verb refuses only after it has read the refs again.
"""

from __future__ import annotations

from ...core.model import Begun, Done, Granted, Holder, KnownGrants, Record, Takeover
from ...core.passwords import hide_password
from ...core.tenure import request_timeout
from ...core.value import replace
from ...errors import Busy, LeaseLost
from ...system import clock, identity, storage
from .. import held
from ..polling import PollingWaiter
from . import idle, names, record, rows
from .done import KeyPlace
from .record import StoredLease
from .refs import PATIENCE, TRIES, RefChange, Refs
from .remote import resolve
from .repository import Moved, RefMove, Repository
from .settling import KeyToSettle, plan_to_settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ...core.protocols import ReleaseWaiter
    from ...core.row import Cursor, Move
    from .objects import Commit

_MIN_TIMEOUT = 0.25  # seconds; no timeout is shorter, since git has to start and connect


def connect(where: str) -> GitStore:
    """The store in the remote that `where` means. Looks up `git+origin` in the local repository; sends nothing."""
    remote = resolve(where)
    folder = storage.folder_for(hide_password(f"git+{remote.url}"))
    repository = Repository(remote, folder)
    return GitStore(f"git+{repository.shown}", repository, folder)


class GitStore:
    default_ttl = 600.0
    lists_begun = True  # each machine has its own ledger
    poll_every = 1.0

    def __init__(self, where: str, repository: Repository, folder: str) -> None:
        self.url = where
        self.folder = folder
        self.repository = repository
        self._refs = Refs(repository)

    @property
    def id(self) -> str:
        if names.STORE not in self._refs.last_seen:
            self._refs.look(names.STORE)
        while (current := self._refs.last_seen[names.STORE]) is None:
            try:
                self._refs.push([RefChange(names.STORE, None, record.store_message(identity.new_id()))], PATIENCE)
            except Moved:
                self._refs.look(names.STORE)
        return record.read_store(current.message)

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        def with_begun(before: tuple[Begun, ...], token: int, at: float) -> tuple[Begun, ...]:
            return Begun.add(before, replace(begin, host=holder.host, token=token, at=at)) if begin else before

        created, started = False, clock.now()

        def change(current: StoredLease | None, version: str) -> StoredLease:
            nonlocal created
            now = clock.wall()
            until, packed, lowest = now + ttl, holder.pack(), int(now * 1000)
            created = current is None
            if current is None:
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
                    begun=with_begun((), lowest, now),
                )
            mine = replace(current, grant=grant, holder=packed, ttl=ttl, until=until)
            if current.grant == grant:
                return mine
            proven = over is not None and over.proven and (over.grant, over.version) == (current.grant, version)
            if current.grant and not proven:
                there = current.record(name, version)
                raise Busy(held.sentence(there, name), there)
            past = KnownGrants.remember(current.past, current.token, grant)
            token = max(current.token + 1, lowest)
            listed = with_begun(current.begun, token, now)
            return replace(mine, token=token, previous=current.token, since=now, past=past, begun=listed)

        self._forget_absence(name)
        current, token = self._change(name, change, ttl), 0
        if created and clock.now() - started > idle.PAUSE:  # the floor may have risen over our token: see idle.py
            self._refs.look(names.FLOOR)
            if idle.floor(self._refs) >= current.token:
                token = self.raise_token(name, idle.floor(self._refs), grant)
        return Granted(
            token=token or current.token,
            previous=current.previous,
            gates=current.gates,
            known=KnownGrants.read(current.past),
            begun=Begun.without(current.begun, {current.token}),
        )

    def renew(self, name: str, grant: str, ttl: float) -> None:
        self._change_mine(name, grant, lambda mine: replace(mine, ttl=ttl, until=clock.wall() + ttl), ttl)

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        def change(mine: StoredLease) -> StoredLease:
            return replace(mine, grant="", until=clock.wall(), begun=Begun.without(mine.begun, ended))

        self._change_mine(name, grant, change)
        self.repository.tidy()
        idle.delete_unused(self._refs, self.folder)

    def evict(self, name: str) -> bool:
        held_by_somebody = False

        def change(current: StoredLease | None, _version: str) -> StoredLease | None:
            nonlocal held_by_somebody
            held_by_somebody = bool(current and current.grant)
            return replace(current, grant="", until=clock.wall()) if current and current.grant else None

        self._change(name, change)
        return held_by_somebody

    def read(self, name: str) -> Record | None:
        commit = self._refs.look(names.lease(name), names.STORE)
        return record.read_lease(commit.message).record(name, commit.oid) if commit else None

    def records(self) -> Iterator[Record]:
        found = {
            names.lease_name(ref): commit
            for ref, commit in self._refs.get(f"{names.ROOT}*", only=names.lease_name).items()
        }
        return (record.read_lease(found[name].message).record(name, found[name].oid) for name in sorted(found))

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        def change(current: StoredLease | None, _version: str = "") -> StoredLease:
            now = clock.wall()
            # Not below the clock, as with an acquire: a store that forgot its grants may have handed out `above` + 1.
            lowest = max(above + 1, int(now * 1000))
            if current is None:
                lowest = max(lowest, idle.floor(self._refs) + 1)
                return StoredLease(token=lowest, since=now, until=now)
            token, my_token = max(current.token + 1, lowest), current.token if grant else -1
            begun = tuple(replace(entry, token=token) if entry.token == my_token else entry for entry in current.begun)
            # A person who raises the token vouches for all older marks: an empty `past` makes the token their floor.
            return replace(current, token=token, past=current.past if grant else "", begun=begun)

        if grant:
            return self._change_mine(name, grant, change).token
        self._forget_absence(name)
        return self._change(name, change).token

    def look(self, scope: str, key: str) -> Done | None:
        place = KeyPlace(scope, key)
        current = self._refs.look(place.ref)
        return place.key_tree(self.repository, current.oid if current else "", PATIENCE).find()

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        wanted = KeyToSettle(name, grant, scope, key, value, input)
        with self._refs.turn(names.lease(name)):
            for fresh in (False, *[True] * (TRIES - 1)):
                try:
                    plan = plan_to_settle(self._refs, wanted, fresh=fresh)
                except LeaseLost:
                    if fresh:
                        raise
                    continue
                if not plan.changes and not fresh:
                    continue
                try:
                    if plan.changes:
                        self._refs.push(plan.changes, self._patience(plan.ttl), plan.new_objects)
                except Moved:
                    continue
                return plan.done.with_input(input)
        raise self._refs.crowded(name)

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        for key, value in keys.items():
            self.settle(name, grant, scope, key, value=value)

    def moves_to_settle(self, name: str, grant: str, scope: str, key: str, *, value: str) -> list[RefMove]:
        """The moves that make the key done, for a push that carries other moves too; [] if it is done already."""
        with self._refs.turn(names.lease(name)):
            plan = plan_to_settle(self._refs, KeyToSettle(name, grant, scope, key, value, ""), fresh=True)
            moves, new = self._refs.make_commits(plan.changes, plan.new_objects)
            for ref in new:
                self._refs.last_seen.pop(ref, None)  # unknown from now on: the caller may not make the moves
        return moves

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        found = rows.look(self._refs, jobs)
        return [row for row in found if due is None or row.wake <= due]

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        return rows.advance(self._refs, moves)

    def register(self, name: str, grant: str, gate: str) -> bool:
        registered = False

        def change(mine: StoredLease) -> StoredLease | None:
            nonlocal registered
            registered = gate in mine.gates
            return None if registered else replace(mine, gates=tuple(sorted({*mine.gates, gate})))

        self._change_mine(name, grant, change)
        return not registered

    def gates(self, name: str) -> tuple[str, ...]:
        current = _stored_lease(self._refs.look(names.lease(name)))
        return current.gates if current else ()

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        registered = False

        def change(current: StoredLease | None, _version: str = "") -> StoredLease | None:
            nonlocal registered
            registered = current is not None and gate in current.gates
            if current is None or not registered:
                return None
            return replace(current, gates=tuple(g for g in current.gates if g != gate))

        if grant:
            self._change_mine(name, grant, change)
        else:
            self._change(name, change)
        return registered

    def listen(self, name: str) -> ReleaseWaiter:
        return PollingWaiter(every=self.poll_every, first=0.25)

    def may_expire_by_observation(self, record: Record) -> bool:
        """Always: machines share no clock here."""
        return True

    def clock(self) -> float:
        return clock.wall()

    def close(self) -> None:
        self._refs.last_seen.clear()

    def _change_mine(
        self, name: str, grant: str, change: Callable[[StoredLease], StoredLease | None], ttl: float = 0.0
    ) -> StoredLease:
        def mine(current: StoredLease | None, version: str) -> StoredLease | None:
            if current is None or current.grant != grant:
                there = current.record(name, version) if current else None
                raise LeaseLost(held.lost_sentence(there, name), reason="taken")
            return change(current)

        return self._change(name, mine, ttl)

    def _change(
        self, name: str, change: Callable[[StoredLease | None, str], StoredLease | None], ttl: float = 0.0
    ) -> StoredLease:
        """Change a lease's ref by `change`; if another writer was first, call `change` again with the new value.

        `change` gets the current lease and its version; it returns the new one (None: leave it), or raises.
        """
        ref = names.lease(name)
        with self._refs.turn(ref):
            fresh = False
            for _ in range(TRIES):
                if ref not in self._refs.last_seen:
                    self._refs.look(ref, names.STORE, names.FLOOR, timeout=self._patience(ttl))
                    fresh = True
                commit = self._refs.last_seen[ref]
                current = _stored_lease(commit)
                try:
                    wanted = change(current, commit.oid if commit else "")
                    if wanted is None and fresh:
                        return current or StoredLease(token=0, since=0.0, until=0.0)
                except (Busy, LeaseLost):
                    if fresh:
                        raise
                    wanted = None
                if wanted is None:
                    self._refs.last_seen.pop(ref, None)  # `change` refused what we remember: read the ref again
                    continue
                try:
                    self._refs.push([RefChange(ref, commit, wanted.message(name))], self._patience(ttl or wanted.ttl))
                except Moved:
                    continue
                return wanted
        raise self._refs.crowded(name)

    def _forget_absence(self, name: str) -> None:
        """Forget that a name had no ref when this process last looked, so that its ref and the floor are read again."""
        if self._refs.last_seen.get(names.lease(name)) is None:
            self._refs.last_seen.pop(names.lease(name), None)

    def _patience(self, ttl: float) -> float:
        return min(max(request_timeout(ttl), _MIN_TIMEOUT), PATIENCE) if ttl else PATIENCE


def _stored_lease(commit: Commit | None) -> StoredLease | None:
    return record.read_lease(commit.message) if commit else None
