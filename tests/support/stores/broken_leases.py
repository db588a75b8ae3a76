"""Stores whose leases are each broken in one way: tokens, records, takeover, fencing, lost replies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection

from nightlatch.core.model import Begun, Done, Granted, Holder, Takeover
from nightlatch.core.value import replace
from nightlatch.errors import Busy, LeaseLost
from nightlatch.system import clock
from nightlatch.testing import stores
from tests.support.stores.broken import Unchecked, caught_by
from tests.support.stores.page_store import Page, PageStore

# Tokens


@caught_by(stores.Tokens)
class TokenBeginsAgainAfterRelease(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        super()._end(page, name, lease)
        lease["token"] = 0


@caught_by(stores.Tokens)
class TokenIsAPlainCounter(PageStore):
    """Works until a backup is restored: then old tokens are handed out again."""

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
    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        try:
            return super().acquire(name, grant, holder, ttl, over, begin)
        except Busy:
            raise Busy("somebody has it") from None


@caught_by(stores.Names)
class NamesIgnoreCase(PageStore):
    """As a folder on a disk that ignores case does."""

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        return super().acquire(name.lower(), grant, holder, ttl, over, begin)


@caught_by(stores.Races)
class AcquireReadsThenWrites(PageStore):
    """Two see the lease free, and both write. Their locks are held for the reading and for the writing."""

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        with self._page() as page:
            seen = page["leases"].get(name)
        time.sleep(0.001)
        if seen and seen["grant"] not in ("", grant) and not self._may_take(seen, over):
            raise Busy("held", self._record(name, seen))
        with self._page() as page:
            lease = page["leases"].setdefault(name, self._new_lease())
            lease.update(grant="")
        return super().acquire(name, grant, holder, ttl, over, begin)


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
    """A holder that was only slow loses a lease that nobody took."""

    def _mine(self, page: Page, name: str, grant: str) -> Page:
        lease = super()._mine(page, name, grant)
        if self._expired(lease):
            raise LeaseLost("expired", reason="taken")
        return lease


# Fencing: each verb once without its check


@caught_by(stores.Fencing)
class RenewIsNotFenced(PageStore):
    def renew(self, name: str, grant: str, ttl: float) -> None:
        Unchecked(self.path).renew(name, grant, ttl)


@caught_by(stores.Fencing)
class ReleaseIsNotFenced(PageStore):
    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        Unchecked(self.path).release(name, grant, ended)


@caught_by(stores.Fencing)
class SettleIsNotFenced(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return Unchecked(self.path).settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.Fencing)
class RegisterIsNotFenced(PageStore):
    def register(self, name: str, grant: str, gate: str) -> bool:
        return Unchecked(self.path).register(name, grant, gate)


@caught_by(stores.Fencing)
class UnregisterIsNotFenced(PageStore):
    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        return super().unregister(name, gate)


@caught_by(stores.Fencing)
class RaiseIsNotFenced(PageStore):
    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        return super().raise_token(name, above)


# Lost replies


@caught_by(stores.LostReplies)
class AskingAgainIsRefused(PageStore):
    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        record = self.read(name)
        if record and record.grant == grant:
            raise Busy("held", record)
        return super().acquire(name, grant, holder, ttl, over, begin)


@caught_by(stores.LostReplies)
class AskingAgainGivesANewToken(PageStore):
    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        try:
            self.release(name, grant)
        except LeaseLost:
            pass
        return super().acquire(name, grant, holder, ttl, over, begin)
