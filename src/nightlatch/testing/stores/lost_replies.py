"""After a lost reply the request is sent again: every request is safe to send twice with the same arguments."""

from __future__ import annotations

from ...errors import LeaseLost
from ...system import identity
from .store_case import LONG, StoreCase


class LostReplies(StoreCase):
    def test_acquire_sent_again_is_the_same_grant(self) -> None:
        name, grant, holder = self.name(), identity.new_id(), self.holder()
        first = self.store.acquire(name, grant, holder, LONG)
        assert self.connect().acquire(name, grant, holder, LONG) == first
        assert (self.record(name).token, self.record(name).grant) == (first.token, grant)

    def test_a_takeover_sent_again_is_the_same_grant(self) -> None:
        name, grant, holder = self.name(), identity.new_id(), self.holder()
        self.take(name)
        over = self.takeover(name, proven=True)
        first = self.store.acquire(name, grant, holder, LONG, over)
        assert self.connect().acquire(name, grant, holder, LONG, over) == first

    def test_a_takeover_after_expiry_sent_again_is_the_same_grant(self) -> None:
        name, grant, holder = self.name(), identity.new_id(), self.holder()
        self.take(name, ttl=self.ttl)
        over = self.lapsed(name)
        first = self.store.acquire(name, grant, holder, LONG, over)
        assert self.store.acquire(name, grant, holder, LONG, over) == first

    def test_renew_sent_again_renews(self) -> None:
        name, grant, granted = self.held()
        self.store.renew(name, grant, LONG)
        self.connect().renew(name, grant, LONG)
        assert (self.record(name).token, self.record(name).grant) == (granted.token, grant)

    def test_release_sent_again_does_no_harm(self) -> None:
        name, grant, granted = self.held()
        self.store.release(name, grant)
        self._release_again(name, grant)
        assert (self.record(name).token, self.record(name).grant) == (granted.token, "")

    def test_release_sent_again_does_not_end_the_next_grant(self) -> None:
        name, grant, _ = self.held()
        self.store.release(name, grant)
        mine, _ = self.take(name)
        self._release_again(name, grant)
        assert self.record(name).grant == mine

    def test_settle_sent_again_tells_what_was_settled(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        first = self.store.settle(name, grant, scope, "key", value="v", input="i")
        assert self.connect().settle(name, grant, scope, "key", value="v", input="i") == first

    def test_register_sent_again_registers_once(self) -> None:
        name, grant, _ = self.held()
        self.store.register(name, grant, "file:///out")
        self.connect().register(name, grant, "file:///out")
        assert self.take(name, over=self.takeover(name, proven=True))[1].gates == ("file:///out",)

    def test_raise_sent_again_stays_above(self) -> None:
        name, grant, granted = self.held()
        above = granted.token + 1000
        first = self.store.raise_token(name, above, grant)
        second = self.connect().raise_token(name, above, grant)
        assert above < first <= second == self.record(name).token
        self.store.release(name, grant)
        assert self.store.raise_token(name, above) <= self.store.raise_token(name, above) == self.record(name).token

    def _release_again(self, name: str, grant: str) -> None:
        try:
            self.connect().release(name, grant)
        except LeaseLost:
            pass  # also right: the lease is no longer this grant's
