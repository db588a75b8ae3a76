"""A lease from its acquire to its release."""

from __future__ import annotations

from ...errors import Busy
from ...system import clock, identity
from ..expect import raises
from .store_case import LONG, StoreCase


class Leases(StoreCase):
    def test_a_name_that_was_never_held_has_no_record(self) -> None:
        assert self.store.read(self.name()) is None

    def test_a_free_lease_is_granted_and_its_record_tells_who_has_it(self) -> None:
        name, grant, holder = self.name(), identity.new_id(), self.holder()
        granted = self.store.acquire(name, grant, holder, LONG)
        record = self.record(name)
        assert (record.name, record.token, record.grant) == (name, granted.token, grant)
        assert record.holder == holder
        assert record.ttl == LONG
        assert record.until - record.since > 0

    def test_the_record_says_how_much_time_is_left_if_the_store_has_a_clock(self) -> None:
        name = self.name()
        self.take(name)
        left = self.record(name).left
        if self.has_clock:
            assert left is not None and 0 < left <= LONG
        else:
            assert left is None, "without a clock nobody can say how much time is left"

    def test_a_held_lease_is_busy_and_the_refusal_carries_the_record(self) -> None:
        name, grant, granted = self.held()
        busy = raises(Busy, self.take, name, store=self.connect())
        assert busy.record is not None
        assert (busy.record.grant, busy.record.token) == (grant, granted.token)
        assert self.record(name).grant == grant

    def test_two_names_are_two_leases(self) -> None:
        one, other = self.name(), self.name()
        mine, _ = self.take(one)
        theirs, _ = self.take(other)
        self.store.release(one, mine)
        assert self.record(other).grant == theirs

    def test_a_renewal_changes_the_version_and_not_the_token(self) -> None:
        name, grant, granted = self.held()
        before = self.record(name)
        self.store.renew(name, grant, LONG)
        after = self.record(name)
        assert after.version != before.version, "a challenger that watches must see that the holder lives"
        assert (after.grant, after.token) == (grant, granted.token)

    def test_a_renewal_gives_the_time_it_names(self) -> None:
        name, grant, _ = self.held(ttl=LONG)
        self.store.renew(name, grant, 10 * LONG)
        record = self.record(name)
        assert record.ttl == 10 * LONG
        if self.has_clock:
            assert record.left is not None and record.left > LONG

    def test_a_renewed_lease_outlives_its_first_ttl(self) -> None:
        name, grant, _ = self.held(ttl=self.ttl)
        self.store.renew(name, grant, LONG)
        since = clock.now()
        self.until(lambda: clock.now() - since > self.ttl, "the first TTL has passed", self.ttl)
        raises(Busy, self.take, name, over=self.takeover(name, proven=False))

    def test_a_released_lease_is_free_at_once(self) -> None:
        name, grant, _ = self.held()
        self.store.release(name, grant)
        mine, _ = self.take(name, store=self.connect())
        assert self.record(name).grant == mine

    def test_a_released_record_stays_with_its_token_and_no_grant(self) -> None:
        name, grant, granted = self.held()
        self.store.release(name, grant)
        record = self.record(name)
        assert (record.grant, record.token) == ("", granted.token)

    def test_an_evicted_lease_is_free_and_its_record_stays(self) -> None:
        name, _, granted = self.held()
        assert self.store.evict(name) is True
        record = self.record(name)
        assert (record.grant, record.token) == ("", granted.token)
        self.take(name)

    def test_evicting_a_lease_that_nobody_holds_returns_false(self) -> None:
        name = self.name()
        assert self.store.evict(name) is False, "nobody ever held it"
        grant, _ = self.take(name)
        self.store.release(name, grant)
        assert self.store.evict(name) is False, "it was released"

    def test_every_lease_ever_held_is_listed_by_name(self) -> None:
        names = sorted(self.name() for _ in range(3))
        for name in reversed(names):
            grant, _ = self.take(name)
            if name != names[0]:
                self.store.release(name, grant)
        listed = [record.name for record in self.store.records()]
        assert [name for name in listed if name in names] == names
        assert len(listed) == len(set(listed))
