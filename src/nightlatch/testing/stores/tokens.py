"""A token never repeats and never falls."""

from __future__ import annotations

from ...system import identity
from ..expect import wall_clock
from .store_case import LONG, StoreCase

HOUR = 3600.0


class Tokens(StoreCase):
    def test_the_first_token_has_none_before_it(self) -> None:
        _, granted = self.take(self.name())
        assert granted.previous == 0

    def test_a_token_is_at_least_the_clock_in_milliseconds(self) -> None:
        """So that a store which lost its records, or was restored from a backup, still hands out higher tokens."""
        before = self.store.clock()
        _, granted = self.take(self.name())
        assert granted.token >= (before - 1) * 1000
        assert granted.token < 2**53, "a token must pass through JSON unharmed"

    def test_the_token_rises_through_every_release(self) -> None:
        name = self.name()
        before = 0
        for _ in range(self.rounds):
            grant, granted = self.take(name)
            assert granted.token > before
            assert granted.previous == before
            before = granted.token
            self.store.release(name, grant)

    def test_the_token_rises_through_an_eviction(self) -> None:
        name, _, first = self.held()
        self.store.evict(name)
        _, second = self.take(name)
        assert (second.token > first.token, second.previous) == (True, first.token)

    def test_the_token_rises_through_a_takeover(self) -> None:
        name, _, first = self.held()
        _, second = self.take(name, over=self.takeover(name, proven=True))
        assert (second.token > first.token, second.previous) == (True, first.token)

    def test_the_token_rises_though_the_wall_clock_steps_back(self) -> None:
        name = self.name()
        with wall_clock(+HOUR):
            grant, first = self.take(name)
            self.store.release(name, grant)
        grant, second = self.take(name)
        self.store.release(name, grant)
        with wall_clock(-HOUR):
            _, third = self.take(name)
        assert first.token < second.token < third.token

    def test_the_holder_can_raise_its_token_above_another(self) -> None:
        name, grant, granted = self.held()
        above = granted.token + 1_000_000
        raised = self.store.raise_token(name, above, grant)
        assert raised > above
        record = self.record(name)
        assert (record.token, record.grant) == (raised, grant), "the holder has the raised token, and still its lease"
        assert self.store.acquire(name, grant, record.holder, LONG).token == raised

    def test_raising_above_a_lower_number_still_raises_the_token(self) -> None:
        name, grant, granted = self.held()
        assert self.store.raise_token(name, 1, grant) > granted.token
        self.store.release(name, grant)
        token = self.record(name).token
        assert self.store.raise_token(name, 1) > token

    def test_a_raise_changes_the_version(self) -> None:
        name, grant, _ = self.held()
        before = self.record(name).version
        self.store.raise_token(name, 1, grant)
        assert self.record(name).version != before, "a challenger that watches must see that the holder lives"

    def test_a_person_can_raise_the_token_of_a_name_that_nobody_holds(self) -> None:
        never_held, released = self.name(), self.name()
        grant, granted = self.take(released)
        self.store.release(released, grant)
        for name in (never_held, released):
            above = granted.token + 1_000_000
            raised = self.store.raise_token(name, above)
            assert raised > above
            assert (self.record(name).token, self.record(name).grant) == (raised, "")
            _, next_one = self.take(name)
            assert (next_one.token > raised, next_one.previous) == (True, raised)

    def test_a_person_can_raise_the_token_of_a_name_that_is_held(self) -> None:
        name, grant, granted = self.held()
        raised = self.store.raise_token(name, granted.token + 10)
        assert raised > granted.token + 10
        assert self.record(name).grant == grant, "the lease stays where it is"
        self.store.release(name, grant)
        assert self.take(name)[1].token > raised

    def test_a_raised_token_stays_through_a_takeover(self) -> None:
        name, grant, granted = self.held()
        raised = self.store.raise_token(name, granted.token + 1_000_000, grant)
        _, next_one = self.take(name, over=self.takeover(name, proven=True))
        assert (next_one.token > raised, next_one.previous) == (True, raised)

    def test_a_grant_gets_the_same_token_again(self) -> None:
        name, grant = self.name(), identity.new_id()
        first = self.store.acquire(name, grant, self.holder(), LONG)
        assert self.connect().acquire(name, grant, self.holder(), LONG) == first
