"""When a lease may move from one holder to the next, and when it must not."""

from __future__ import annotations

from ...core.model import Takeover
from ...errors import Busy
from ...runtime.shared.leases.acquire import acquire
from ...system import identity
from ..expect import raises, wall_clock
from .store_case import LONG, StoreCase

HOUR = 3600.0


class Takeovers(StoreCase):
    def test_an_unproven_takeover_before_expiry_is_refused(self) -> None:
        name, grant, _ = self.held()
        busy = raises(Busy, self.take, name, over=self.takeover(name, proven=False))
        assert busy.record is not None and busy.record.grant == grant
        assert self.record(name).grant == grant

    def test_a_lapsed_lease_goes_to_the_challenger_that_saw_it(self) -> None:
        name, _, first = self.held(ttl=self.ttl)
        mine, second = self.take(name, over=self.lapsed(name))
        assert (second.token > first.token, second.previous) == (True, first.token)
        assert self.record(name).grant == mine

    def test_a_lapsed_lease_is_not_free_for_a_challenger_that_saw_nothing(self) -> None:
        """Such a challenger has not looked for survivors of the current grant."""
        name, grant, _ = self.held(ttl=self.ttl)
        self.lapsed(name)
        raises(Busy, self.take, name)
        assert self.record(name).grant == grant

    def test_a_challenger_that_saw_an_older_grant_does_not_get_a_lapsed_lease(self) -> None:
        name, earlier, _ = self.held()
        self.store.release(name, earlier)
        grant, _ = self.take(name, ttl=self.ttl)
        version = self.lapsed(name).version
        for proven in (False, True):
            raises(Busy, self.take, name, over=Takeover(grant=earlier, version=version, proven=proven))
        assert self.record(name).grant == grant

    def test_without_a_clock_no_unproven_takeover_is_ever_granted(self) -> None:
        name, grant, _ = self.held(ttl=self.ttl)
        self.lapsed(name)
        if not self.has_clock:
            raises(Busy, self.take, name, over=self.takeover(name, proven=False))
            assert self.record(name).grant == grant

    def test_a_holder_that_renewed_meanwhile_keeps_its_lease(self) -> None:
        """The challenger saw the lease lapsed, but its holder was only slow."""
        name, grant, _ = self.held(ttl=self.ttl)
        over = self.lapsed(name)
        self.store.renew(name, grant, LONG)
        raises(Busy, self.take, name, over=over)
        assert self.record(name).grant == grant

    def test_a_lapsed_grant_that_nobody_took_is_still_its_holders(self) -> None:
        name, grant, granted = self.held(ttl=self.ttl)
        self.lapsed(name)
        self.store.renew(name, grant, LONG)
        assert (self.record(name).grant, self.record(name).token) == (grant, granted.token)

    def test_a_proven_takeover_needs_no_expiry(self) -> None:
        name, _, first = self.held()
        mine, second = self.take(name, over=self.takeover(name, proven=True))
        assert (second.token > first.token, second.previous) == (True, first.token)
        assert self.record(name).grant == mine

    def test_a_proven_takeover_needs_the_version_that_was_seen(self) -> None:
        name, grant, _ = self.held()
        over = self.takeover(name, proven=True)
        self.store.renew(name, grant, LONG)
        raises(Busy, self.take, name, over=over)
        assert self.record(name).grant == grant

    def test_a_proven_takeover_needs_the_grant_that_was_seen(self) -> None:
        name = self.name()
        self.take(name)
        over = self.takeover(name, proven=True)
        winner, _ = self.take(name, over=over)
        raises(Busy, self.take, name, over=over)
        guess = Takeover(grant=over.grant, version=self.record(name).version, proven=True)
        raises(Busy, self.take, name, over=guess)
        assert self.record(name).grant == winner

    def test_a_lease_released_meanwhile_is_simply_free(self) -> None:
        name, grant, _ = self.held()
        over = self.takeover(name, proven=False)
        self.store.release(name, grant)
        mine, _ = self.take(name, over=over)
        assert self.record(name).grant == mine

    def test_a_challenger_whose_wall_clock_is_ahead_steals_nothing(self) -> None:
        name, grant, _ = self.held()
        over = self.takeover(name, proven=False)
        with wall_clock(+HOUR):
            raises(Busy, self.take, name, over=over)
        assert self.record(name).grant == grant

    def test_a_holder_whose_wall_clock_is_ahead_keeps_nothing_for_longer(self) -> None:
        name = self.name()
        with wall_clock(+HOUR):
            self.take(name, ttl=self.ttl)
        mine, _ = self.take(name, over=self.lapsed(name))
        assert self.record(name).grant == mine

    def test_a_waiter_gets_the_lease_of_a_silent_holder(self) -> None:
        """All the steps that the runtime takes: look, judge, wait, take."""
        name, grant = self.name(), identity.new_id()
        _, first = self.take(name, ttl=self.ttl)
        second, _ = acquire(self.connect(), name, grant, self.holder(), LONG, (self.ttl * 2 + 20) * self.factor)
        assert second.token > first.token
        assert self.record(name).grant == grant
