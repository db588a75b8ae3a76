"""Many at once: one of them gets the lease, and no two ever get the same token."""

from __future__ import annotations

import threading
import unittest

from ...core.model import Takeover
from ...core.protocols import Store
from ...errors import Busy
from ...system import clock
from ..expect import together
from .racer import race
from .store_case import StoreCase


class Races(StoreCase):
    def test_one_of_many_gets_a_lease_that_was_never_held(self) -> None:
        stores = self.connections()
        for _ in range(self.rounds):
            self._one_gets(stores, self.name())

    def test_one_of_many_gets_a_lease_that_was_released(self) -> None:
        stores, name = self.connections(), self.name()
        for _ in range(self.rounds):
            grant, _ = self.take(name)
            self.store.release(name, grant)
            self._one_gets(stores, name)
            self.store.evict(name)

    def test_one_of_many_takes_over(self) -> None:
        stores, name = self.connections(), self.name()
        self.take(name)
        for _ in range(self.rounds):
            self._one_gets(stores, name, self.takeover(name, proven=True))

    def test_threads_on_connections_of_their_own_never_share_a_lease_or_a_token(self) -> None:
        self._in_turn(self.connections())

    def test_threads_on_one_connection_never_share_a_lease_or_a_token(self) -> None:
        self._in_turn([self.store] * self.racers)

    def test_processes_never_share_a_token_nor_see_it_fall(self) -> None:
        opener = self.elsewhere()
        if not opener:
            raise unittest.SkipTest("no other process can open this store: `elsewhere` says how one could")
        name = self.name()
        tokens = race(opener, name, processes=self.racers, rounds=self.rounds, seconds=60 * self.factor)
        assert len(tokens) == self.racers * self.rounds, "not every process had all its turns in time"
        assert tokens == sorted(set(tokens)), f"tokens in the order they were granted: {tokens}"
        assert self.record(name).token == tokens[-1]

    def _one_gets(self, stores: list[Store], name: str, over: Takeover | None = None) -> None:
        outcomes = together(lambda store: self.take(name, over=over, store=store), stores)
        winners = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
        losers = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
        assert all(isinstance(loser, Busy) for loser in losers), losers
        assert len(winners) == 1, f"{len(winners)} got the lease"
        grant, granted = winners[0]
        record = self.record(name)
        assert (record.grant, record.token) == (grant, granted.token)

    def _in_turn(self, stores: list[Store]) -> None:
        """Each thread acquires and releases until it has had its turns; no two may hold the lease at once."""
        name, inside, tokens = self.name(), threading.Semaphore(1), list[int]()
        deadline = clock.now() + 60 * self.factor

        def turns(store: Store) -> None:
            had = 0
            while had < self.rounds:
                assert clock.now() < deadline, f"only {had} turns of {self.rounds} came"
                try:
                    grant, granted = self.take(name, store=store)
                except Busy:
                    clock.sleep(0.01)
                    continue
                assert inside.acquire(blocking=False), "two hold the lease at once"
                tokens.append(granted.token)
                inside.release()
                store.release(name, grant)
                had += 1

        assert together(turns, stores) == [None] * len(stores)
        assert tokens == sorted(set(tokens)), f"tokens in the order they were granted: {tokens}"
