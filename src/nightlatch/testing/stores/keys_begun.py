"""Where machines do not share a ledger, every later holder is given the keys that were begun and have not ended."""

from __future__ import annotations

from ...core.model import Begun, Granted, Record
from ...system import identity
from .store_case import LONG, StoreCase


class KeysBegun(StoreCase):
    def test_a_key_that_was_begun_is_told_to_every_later_holder(self) -> None:
        name = self.name()
        grant, first = self._begin(name, "one", attempt=3)
        assert first.begun == ()
        self.store.release(name, grant)
        grant, second = self._begin(name, "two")
        assert self._facts(second) == self._listed(("one", 3, first.token))
        _, third = self.take(name, over=self.takeover(name, proven=True), store=self.connect())
        both = self._listed(("one", 3, first.token), ("two", 1, second.token))
        assert self._facts(third) == both
        assert self._entries(name) == both

    def test_an_entry_says_where_and_when_it_was_begun(self) -> None:
        name = self.name()
        self._begin(name, "a\tkey = with\nall of it\\")
        for entry in self.record(name).begun:
            assert entry.key == "a\tkey = with\nall of it\\"
            assert entry.host == self.holder().host
            assert abs(entry.at - self.store.clock()) < 60

    def test_a_holder_that_asks_again_has_begun_once(self) -> None:
        name, grant = self.name(), identity.new_id()
        tokens = {
            self.connect().acquire(name, grant, self.holder(), LONG, None, Begun(key="one")).token for _ in range(2)
        }
        assert len(tokens) == 1
        assert self._entries(name) == self._listed(("one", 1, tokens.pop()))

    def test_renewal_raise_and_eviction_keep_the_list(self) -> None:
        name = self.name()
        grant, _ = self._begin(name, "one")
        self.store.renew(name, grant, LONG)
        raised = self.store.raise_token(name, 0, grant)
        assert self._entries(name) == self._listed(("one", 1, raised)), "the entry has the token that gates see"
        self.store.evict(name)
        self.store.raise_token(name, raised + 10)
        assert self._entries(name) == self._listed(("one", 1, raised))

    def test_a_key_that_is_settled_under_its_lease_is_not_begun_any_more(self) -> None:
        name = self.name()
        grant, granted = self._begin(name, "one")
        self.store.settle(name, grant, "another scope", "one")
        self.store.settle(name, grant, name, "another key")
        assert self._entries(name) == self._listed(("one", 1, granted.token))
        self.store.settle(name, grant, name, "one")
        assert self._entries(name) == []

    def test_a_release_takes_off_the_list_what_it_names_and_nothing_else(self) -> None:
        name = self.name()
        grant, first = self._begin(name, "one")
        self.store.release(name, grant)
        grant, second = self._begin(name, "two")
        self.store.release(name, grant, [second.token])
        assert self._entries(name) == self._listed(("one", 1, first.token))
        grant, _ = self.take(name)
        self.store.release(name, grant, [first.token])
        assert self._entries(name) == []

    def test_attempts_of_one_key_are_counted(self) -> None:
        name = self.name()
        for attempt in (1, 2, 3):
            grant, granted = self._begin(name, "one")
            earlier = list(range(1, attempt)) if self.store.lists_begun else []
            assert [entry.attempt for entry in granted.begun] == earlier
            self.store.release(name, grant)

    def _begin(self, name: str, key: str, attempt: int = 1) -> tuple[str, Granted]:
        grant = identity.new_id()
        return grant, self.store.acquire(name, grant, self.holder(), LONG, None, Begun(key=key, attempt=attempt))

    def _listed(self, *entries: tuple[str, int, int]) -> list[tuple[str, int, int]]:
        """The expected keys: none, if machines that share the store also share a ledger."""
        return list(entries) if self.store.lists_begun else []

    def _entries(self, name: str) -> list[tuple[str, int, int]]:
        return self._facts(self.record(name))

    def _facts(self, found: Granted | Record) -> list[tuple[str, int, int]]:
        return [(entry.key, entry.attempt, entry.token) for entry in found.begun]
