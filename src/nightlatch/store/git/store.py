"""The verbs of a store, each one compare-and-swap push of the refs it changes.

A verb begins with what this process last saw, which saves a request when nobody else wrote: the push itself
compares. What it would refuse, it refuses only after a fresh look.
"""

from __future__ import annotations

import threading

from ...core.model import Cursor, Done, Granted, Record
from ...core.tenure import request_timeout
from ...core.value import replace
from ...errors import Busy, InputChanged, LeaseLost, StoreUnreachable
from ...system import clock, identity
from .. import held, url
from ..ear import Polling
from . import names, record
from .done import Place
from .objects import Pack
from .record import Standing
from .remote import resolve
from .repository import Move, Moved, Refused, Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...core.model import Holder, Takeover
    from ...core.protocols import Ear
    from .objects import Commit

_TRIES = 12  # writers of one ref that come first, before we give up
_PATIENCE = 30.0  # seconds for one request, where no TTL says less
_SHORTEST = 0.25  # a git that has to start, connect and answer needs that much


def connect(where: str) -> GitStore:
    """The store in the remote that `where` means; asks git here about `git+origin`, and the remote nothing."""
    remote = resolve(where)
    full = f"git+{remote.url}"
    folder = url.folder_of(full)
    return GitStore(full, Repository(remote, folder), folder)


class Change:
    """What a ref is to become: a new commit in the place of `before`."""

    def __init__(self, ref: str, before: Commit | None, message: str, tree: str = "") -> None:
        self.ref, self.before, self.message, self.tree = ref, before, message, tree


class GitStore:
    default_ttl = 600.0

    def __init__(self, where: str, repository: Repository, folder: str) -> None:
        self.url = where
        self.folder = folder
        self.repository = repository
        self._seen: dict[str, Commit | None] = {}  # ref → where this process last saw it; None: not there
        self._turns: dict[str, threading.Lock] = {}
        self._chained = False  # the server refused a commit without a parent

    @property
    def id(self) -> str:
        if names.STORE not in self._seen:
            self._look(names.STORE)
        while (stands := self._seen[names.STORE]) is None:
            try:
                self._push([Change(names.STORE, None, record.store_message(identity.new_id()))], _PATIENCE)
            except Moved:
                self._look(names.STORE)
        return record.read_store(stands.message)

    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        def change(stands: Standing | None, version: str) -> Standing:
            now = clock.wall()
            until, packed, lowest = now + ttl, holder.pack(), int(now * 1000)
            if stands is None:
                return Standing(token=lowest, since=now, grant=grant, holder=packed, ttl=ttl, until=until)
            mine = replace(stands, grant=grant, holder=packed, ttl=ttl, until=until)
            if stands.grant == grant:
                return mine
            watched = over is not None and over.proven and (over.grant, over.version) == (stands.grant, version)
            if stands.grant and not watched:
                there = stands.record(name, version)
                raise Busy(held.sentence(there, name), there)
            return replace(mine, token=max(stands.token + 1, lowest), previous=stands.token, since=now)

        stands = self._change(name, change, ttl)
        return Granted(token=stands.token, previous=stands.previous, gates=stands.gates)

    def renew(self, name: str, grant: str, ttl: float) -> None:
        self._change_mine(name, grant, lambda mine: replace(mine, ttl=ttl, until=clock.wall() + ttl), ttl)

    def release(self, name: str, grant: str) -> None:
        self._change_mine(name, grant, lambda mine: replace(mine, grant="", until=clock.wall()))
        self.repository.tidy()

    def evict(self, name: str) -> bool:
        held_by_somebody = False

        def change(stands: Standing | None, _version: str) -> Standing | None:
            nonlocal held_by_somebody
            held_by_somebody = bool(stands and stands.grant)
            return replace(stands, grant="", until=clock.wall()) if stands and stands.grant else None

        self._change(name, change)
        return held_by_somebody

    def read(self, name: str) -> Record | None:
        ref = names.lease(name)
        self._look(ref, names.STORE)
        return self._record(name, ref)

    def records(self) -> Iterator[Record]:
        found = {
            names.lease_name(ref): commit for ref, commit in self._see(f"{names.ROOT}*", only=names.lease_name).items()
        }
        return (record.read_standing(found[name].message).record(name, found[name].oid) for name in sorted(found))

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        def change(stands: Standing | None, _version: str = "") -> Standing:
            if stands is None:
                now = clock.wall()
                return Standing(token=max(above + 1, int(now * 1000)), since=now, until=now)
            return replace(stands, token=max(stands.token, above) + 1)

        return (self._change_mine(name, grant, change) if grant else self._change(name, change)).token

    def look(self, scope: str, key: str) -> Done | None:
        place = Place(scope, key)
        stands = self._look(place.ref)
        return place.shelf(self.repository, stands.oid if stands else "", _PATIENCE).find()

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        place, ref = Place(scope, key), names.lease(name)
        with self._turn(ref):
            for attempt in range(_TRIES):
                if attempt or ref not in self._seen or place.ref not in self._seen:
                    self._look(ref, place.ref)  # what we remember is looked at first, what it forbids is looked up
                lease, keys = self._seen[ref], self._seen[place.ref]
                mine = _standing(lease)
                shelf = place.shelf(self.repository, keys.oid if keys else "", _PATIENCE)
                before = shelf.find()
                if mine is None or mine.grant != grant or before:
                    if not attempt:
                        continue
                    if mine is None or mine.grant != grant:
                        raise self._lost(name)
                    return _same_input(before, input)
                done = Done(scope=scope, key=key, value=value, input=input, token=mine.token, at=round(clock.wall(), 3))
                pack = Pack()
                tree = shelf.add(done, pack)
                # The lease's ref moves too: only a ref that changes is compared, and all of it lands or nothing.
                changes = [Change(ref, lease, mine.message(name)), Change(place.ref, keys, record.keys_message(), tree)]
                try:
                    self._push(changes, self._patience(mine.ttl), pack)
                except Moved:
                    continue
                return done
        raise self._crowded(name)

    def cursor(self, job: str) -> Cursor | None:
        stands = self._look(names.cursor(job))
        return record.read_cursor(stands.message) if stands else None

    def advance(self, job: str, seen: float | None, next_due: float, definition: str) -> bool:
        ref = names.cursor(job)
        with self._turn(ref):
            stands = self._look(ref)
            there = record.read_cursor(stands.message) if stands else None
            if seen is None or there is None:
                if seen is not None or there is not None:
                    return False
            elif round(there.next_due * 1000) != round(seen * 1000) or seen > clock.wall():
                return False
            message = record.cursor_message(Cursor(job=job, next_due=next_due, definition=definition))
            try:
                self._push([Change(ref, stands, message)], _PATIENCE)
            except Moved as moved:
                if moved.unsure:  # it may have been us, and somebody else after us
                    raise StoreUnreachable(f"{self.url} lost a reply about the cursor of {job}. Look again") from moved
                return False
        return True

    def register(self, name: str, grant: str, gate: str) -> bool:
        there = False

        def change(mine: Standing) -> Standing | None:
            nonlocal there
            there = gate in mine.gates
            return None if there else replace(mine, gates=tuple(sorted({*mine.gates, gate})))

        self._change_mine(name, grant, change)
        return not there

    def listen(self, name: str) -> Ear:
        return Polling(every=1.0, first=0.25)

    def judges_unseen(self, record: Record) -> bool:
        """No clock is shared here, so watching is the rule."""
        return True

    def clock(self) -> float:
        return clock.wall()

    def close(self) -> None:
        self._seen.clear()

    def _change_mine(
        self, name: str, grant: str, change: Callable[[Standing], Standing | None], ttl: float = 0.0
    ) -> Standing:
        def mine(stands: Standing | None, version: str) -> Standing | None:
            if stands is None or stands.grant != grant:
                there = stands.record(name, version) if stands else None
                raise LeaseLost(held.lost_sentence(there, name), reason="taken")
            return change(stands)

        return self._change(name, mine, ttl)

    def _change(
        self, name: str, change: Callable[[Standing | None, str], Standing | None], ttl: float = 0.0
    ) -> Standing:
        """Move a lease's ref by `change`, again from where it stands if another came first.

        `change` gets what stands and its version; it returns what shall stand (None: leave it), or raises.
        """
        ref = names.lease(name)
        with self._turn(ref):
            fresh = False
            for _ in range(_TRIES):
                if ref not in self._seen:
                    self._look(ref, names.STORE, timeout=self._patience(ttl))
                    fresh = True
                commit = self._seen[ref]
                stands = _standing(commit)
                try:
                    wanted = change(stands, commit.oid if commit else "")
                    if wanted is None and fresh:
                        return stands or Standing(token=0, since=0.0, until=0.0)
                except (Busy, LeaseLost):
                    if fresh:
                        raise
                    wanted = None
                if wanted is None:
                    self._seen.pop(ref, None)  # so it is by what we remember; somebody may have written since
                    continue
                try:
                    self._push([Change(ref, commit, wanted.message(name))], self._patience(ttl or wanted.ttl))
                except Moved:
                    continue
                return wanted
        raise self._crowded(name)

    def _push(self, changes: list[Change], timeout: float, pack: Pack | None = None) -> None:
        """Write new commits and move the refs to them, all or none."""
        pack = pack or Pack()
        try:
            self._swap(changes, timeout, pack)
        except Refused as refused:
            if self._chained or not _only_forward(str(refused)) or not any(change.before for change in changes):
                raise StoreUnreachable(
                    f"the server of {self.repository.shown} refuses pushes to {names.ROOT}* ({refused}). "
                    f"Allow them there, or use another store: --store URL"
                ) from refused
            # Some servers let no ref go anywhere but forward: then every record has the one before it as parent.
            self._chained = True
            self._push(changes, timeout, pack)

    def _swap(self, changes: list[Change], timeout: float, pack: Pack) -> None:
        moves, new = [], {}
        for change in changes:
            before = change.before.oid if change.before else ""
            chained = change.before is not None and (self._chained or change.before.chained)
            parent = before if chained else ""
            new[change.ref] = commit = pack.commit(change.message, tree=change.tree, parent=parent, at=clock.wall())
            moves.append(Move(ref=change.ref, old=before, new=commit.oid))
        self.repository.write(pack)
        try:
            self.repository.swap(moves, timeout=timeout)
        except BaseException:
            for ref in new:
                self._seen.pop(ref, None)  # it may have moved, or not
            raise
        self._seen |= new

    def _look(self, *refs: str, timeout: float = _PATIENCE) -> Commit | None:
        """See where refs stand at the remote, and what they say; returns the first one's commit."""
        found = self._see(*refs, timeout=timeout)
        self._seen |= {ref: found.get(ref) for ref in refs}
        return found.get(refs[0])

    def _see(
        self, *patterns: str, only: Callable[[str], object] = bool, timeout: float = _PATIENCE
    ) -> dict[str, Commit]:
        for _ in range(_TRIES):
            stands = {ref: oid for ref, oid in self.repository.look(*patterns, timeout=timeout).items() if only(ref)}
            known = {commit.oid: commit for commit in list(self._seen.values()) if commit}
            found = {ref: known[oid] for ref, oid in stands.items() if oid in known}
            found |= self.repository.commits(
                {ref: oid for ref, oid in stands.items() if ref not in found}, timeout=timeout
            )
            if len(found) == len(stands):  # else one moved on between the look and the fetch
                return found
        raise self._crowded(patterns[0])

    def _record(self, name: str, ref: str) -> Record | None:
        commit = self._seen.get(ref)
        return record.read_standing(commit.message).record(name, commit.oid) if commit else None

    def _turn(self, ref: str) -> threading.Lock:
        """Threads of this process take turns on a ref, instead of overtaking each other at the server."""
        return self._turns.setdefault(ref, threading.Lock())

    def _patience(self, ttl: float) -> float:
        return min(max(request_timeout(ttl), _SHORTEST), _PATIENCE) if ttl else _PATIENCE

    def _lost(self, name: str) -> LeaseLost:
        return LeaseLost(held.lost_sentence(self._record(name, names.lease(name)), name), reason="taken")

    def _crowded(self, name: str) -> StoreUnreachable:
        return StoreUnreachable(f"{name} is written by others all the time; no turn in {_TRIES} tries. Try again")


def _standing(commit: Commit | None) -> Standing | None:
    return record.read_standing(commit.message) if commit else None


def _same_input(done: Done | None, given: str) -> Done:
    assert done
    if given and done.input and done.input != given:
        raise InputChanged(
            f"the key {done.key} of {done.scope} is done already, with other input. "
            f"Use another key for other work; a key names what is processed"
        )
    return done


def _only_forward(said: str) -> bool:
    signs = ("fast-forward", "forward", "rewind", "force", "hook declined", "denied", "not allowed", "prohibited")
    return any(sign in said for sign in signs)
