"""Stores that are each broken in one way, with the topic of the suite that has to notice."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nightlatch.core.model import Cursor, Done, Granted, Holder, Takeover
from nightlatch.core.value import replace
from nightlatch.errors import Busy, LeaseLost
from nightlatch.system import clock, identity
from nightlatch.testing import stores
from tests.conformance.page_store import Page, PageStore

BROKEN: dict[type[PageStore], type[stores.StoreCase]] = {}


def caught_by(topic: type[stores.StoreCase]):
    def note(store: type[PageStore]) -> type[PageStore]:
        BROKEN[store] = topic
        return store

    return note


# Tokens


@caught_by(stores.Tokens)
class TokenBeginsAgainAfterRelease(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        super()._end(page, name, lease)
        lease["token"] = 0


@caught_by(stores.Tokens)
class TokenIsAPlainCounter(PageStore):
    """Right until a backup is restored: then old tokens are handed out again."""

    def _next(self, token: int) -> int:
        return token + 1


@caught_by(stores.Tokens)
class TokenIsTheWallClock(PageStore):
    def _next(self, token: int) -> int:
        return int(clock.wall() * 1000)


@caught_by(stores.Tokens)
class RaiseLowersAHighToken(PageStore):
    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        with self._page() as page:
            lease = self._mine(page, name, grant) if grant else page["leases"].setdefault(name, self._new_lease())
            lease["token"] = above + 1
            self._change(lease)
            return above + 1


@caught_by(stores.Races)
class TokenIsCountedInTheProcess(PageStore):
    _count = itertools.count(int(time.time() * 1000))

    def _next(self, token: int) -> int:
        return next(self._count)


# Leases


@caught_by(stores.Leases)
class ReleaseDeletesTheRecord(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        del page["leases"][name]


@caught_by(stores.Leases)
class RenewalLooksLikeSilence(PageStore):
    """The version stays, so a challenger that watches takes the lease from a living holder."""

    def renew(self, name: str, grant: str, ttl: float) -> None:
        with self._page() as page:
            self._mine(page, name, grant).update(ttl=ttl, expires=clock.now() + ttl)


@caught_by(stores.Leases)
class RenewalGivesNoTime(PageStore):
    def renew(self, name: str, grant: str, ttl: float) -> None:
        with self._page() as page:
            self._change(self._mine(page, name, grant))


@caught_by(stores.Leases)
class BusyDoesNotSayWho(PageStore):
    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        try:
            return super().acquire(name, grant, holder, ttl, over)
        except Busy:
            raise Busy("somebody has it") from None


@caught_by(stores.Names)
class NamesIgnoreCase(PageStore):
    """As a folder on a disk that ignores case does."""

    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        return super().acquire(name.lower(), grant, holder, ttl, over)


@caught_by(stores.Races)
class AcquireReadsThenWrites(PageStore):
    """Two see the lease free, and both write. Their locks are held for the reading and for the writing."""

    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        with self._page() as page:
            seen = page["leases"].get(name)
        time.sleep(0.001)
        if seen and seen["grant"] not in ("", grant) and not self._may_take(seen, over):
            raise Busy("held", self._record(name, seen))
        with self._page() as page:
            lease = page["leases"].setdefault(name, self._new_lease())
            lease.update(grant="")
        return super().acquire(name, grant, holder, ttl, over)


# Takeover


@caught_by(stores.Takeovers)
class ExpiryByTheWallClock(PageStore):
    def _expired(self, lease: Page) -> bool:
        return bool(lease["until"] <= clock.wall())


@caught_by(stores.Takeovers)
class TheChallengerIsBelieved(PageStore):
    def _expired(self, lease: Page) -> bool:
        return True


@caught_by(stores.Takeovers)
class ExpiredIsFreeForAnybody(PageStore):
    """Also for a challenger that saw another grant there, or none, and swept no survivors."""

    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        return self._expired(lease) or super()._may_take(lease, over)


@caught_by(stores.Takeovers)
class AProofNeedsNoVersion(PageStore):
    """The holder was proven gone, or seen to stand still; and renewed its lease before the takeover came."""

    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        return super()._may_take(lease, over and replace(over, version=lease["version"]))


@caught_by(stores.Takeovers)
class AProofNeedsNoGrant(PageStore):
    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        return super()._may_take(lease, over and replace(over, grant=lease["grant"]))


@caught_by(stores.Takeovers)
class ExpiredIsLostAtOnce(PageStore):
    """A holder that was only slow is told that it lost a lease nobody took."""

    def _mine(self, page: Page, name: str, grant: str) -> Page:
        lease = super()._mine(page, name, grant)
        if self._expired(lease):
            raise LeaseLost("expired", reason="taken")
        return lease


# Fencing: each verb once without its check


class _Unchecked(PageStore):
    def _mine(self, page: Page, name: str, grant: str) -> Page:
        lease: Page = page["leases"].setdefault(name, self._new_lease())
        return lease


@caught_by(stores.Fencing)
class RenewIsNotFenced(PageStore):
    def renew(self, name: str, grant: str, ttl: float) -> None:
        _Unchecked(self.path).renew(name, grant, ttl)


@caught_by(stores.Fencing)
class ReleaseIsNotFenced(PageStore):
    def release(self, name: str, grant: str) -> None:
        _Unchecked(self.path).release(name, grant)


@caught_by(stores.Fencing)
class SettleIsNotFenced(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return _Unchecked(self.path).settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.Fencing)
class RegisterIsNotFenced(PageStore):
    def register(self, name: str, grant: str, gate: str) -> bool:
        return _Unchecked(self.path).register(name, grant, gate)


@caught_by(stores.Fencing)
class UnregisterIsNotFenced(PageStore):
    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        return super().unregister(name, gate)


@caught_by(stores.Fencing)
class RaiseIsNotFenced(PageStore):
    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        return super().raise_token(name, above)


# Done keys


@caught_by(stores.DoneKeys)
class TheLastSettleStays(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        with self._page() as page:
            self._mine(page, name, grant)
            page["done"].pop(f"{scope}\n{key}", None)
        return super().settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.DoneKeys)
class OtherInputIsNotNoticed(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return super().settle(name, grant, scope, key, value=value)


@caught_by(stores.DoneKeys)
class AStaleHolderMaySettleWhatIsDone(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return self.look(scope, key) or super().settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.DoneKeys)
class KeysHaveNoScope(PageStore):
    def look(self, scope: str, key: str) -> Done | None:
        return super().look("", key)

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return super().settle(name, grant, "", key, value=value, input=input)


# Cursors


@caught_by(stores.Cursors)
class TheCursorMovesForEverybody(PageStore):
    def advance(self, job: str, seen: float | None, next_due: float, definition: str) -> bool:
        cursor = self.cursor(job)
        return super().advance(job, cursor.next_due if cursor else None, next_due, definition)


@caught_by(stores.Cursors)
class TheCursorRunsAheadOfTheClock(PageStore):
    def advance(self, job: str, seen: float | None, next_due: float, definition: str) -> bool:
        with self._page() as page:
            cursor = page["cursors"].get(job)
            if (cursor and cursor["next_due"]) != seen:
                return False
            page["cursors"][job] = {"next_due": next_due, "definition": definition}
            return True


@caught_by(stores.Cursors)
class TheCursorIsComparedBeforeItIsLocked(PageStore):
    def advance(self, job: str, seen: float | None, next_due: float, definition: str) -> bool:
        cursor = self.cursor(job)
        if (cursor and cursor.next_due) != seen or (seen or 0.0) > clock.wall():
            return False
        time.sleep(0.01)
        with self._page() as page:
            page["cursors"][job] = {"next_due": next_due, "definition": definition}
            return True


@caught_by(stores.Cursors)
class TheCursorForgetsFractions(PageStore):
    def cursor(self, job: str) -> Cursor | None:
        cursor = super().cursor(job)
        return cursor and replace(cursor, next_due=float(int(cursor.next_due)))


# The registry of gates


@caught_by(stores.GateRegistry)
class GatesAreForgottenOnRelease(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        super()._end(page, name, lease)
        lease["gates"] = []


@caught_by(stores.GateRegistry)
class GatesAreForgottenOnTakeover(PageStore):
    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        may = super()._may_take(lease, over)
        lease["gates"] = [] if may else lease["gates"]
        return may


@caught_by(stores.GateRegistry)
class AGateStandsOnTheListTwice(PageStore):
    def register(self, name: str, grant: str, gate: str) -> bool:
        with self._page() as page:
            self._mine(page, name, grant)["gates"].append(gate)
            return True


@caught_by(stores.GateRegistry)
class RegisterChecksBeforeItIsLocked(PageStore):
    """The lease moves between check and write: the taker is not told of a gate that the old holder believes in."""

    def register(self, name: str, grant: str, gate: str) -> bool:
        with self._page() as page:
            self._mine(page, name, grant)
        time.sleep(0.01)
        return _Unchecked(self.path).register(name, grant, gate)


@caught_by(stores.GateRegistry)
class UnregisterChecksBeforeItIsLocked(PageStore):
    """The lease moves between check and write: the taker has sealed a gate that its successors will not."""

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        with self._page() as page:
            if grant:
                self._mine(page, name, grant)
        time.sleep(0.01)
        return super().unregister(name, gate)


# Lost replies


@caught_by(stores.LostReplies)
class AskingAgainIsRefused(PageStore):
    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        record = self.read(name)
        if record and record.grant == grant:
            raise Busy("held", record)
        return super().acquire(name, grant, holder, ttl, over)


@caught_by(stores.LostReplies)
class AskingAgainGivesANewToken(PageStore):
    def acquire(self, name: str, grant: str, holder: Holder, ttl: float, over: Takeover | None = None) -> Granted:
        try:
            self.release(name, grant)
        except LeaseLost:
            pass
        return super().acquire(name, grant, holder, ttl, over)


# Connections


@caught_by(stores.Connections)
class EveryConnectionHasAnIdOfItsOwn(PageStore):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._id = identity.new_id()

    @property
    def id(self) -> str:
        return self._id


@caught_by(stores.Connections)
class ClosedIsClosedForGood(PageStore):
    _closed = False

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _page(self) -> Iterator[Page]:
        assert not self._closed, "closed"
        with super()._page() as page:
            yield page


@caught_by(stores.Connections)
class RemembersWhatItRead(PageStore):
    """A cache that nobody invalidates."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen: dict[str, object] = {}

    def read(self, name: str):
        if name not in self._seen:
            self._seen[name] = super().read(name)
        return self._seen[name]
