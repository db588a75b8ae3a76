"""A done key stays done, with the value that was settled first, for everybody."""

from __future__ import annotations

from ...core.model import Done
from ...errors import InputChanged, LeaseLost
from ..expect import raises, together
from .store_case import StoreCase


class DoneKeys(StoreCase):
    def test_a_key_that_was_never_settled_is_not_done(self) -> None:
        assert self.store.look(self.name("scope"), "key") is None

    def test_a_settled_key_is_done_and_says_how(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, granted = self.take(name)
        before = self.store.clock()
        done = self.store.settle(name, grant, scope, "key", value="a\n\t'\"ü", input="sha")
        expected = Done(scope=scope, key="key", value="a\n\t'\"ü", input="sha", token=granted.token, at=done.at)
        assert done == expected
        assert abs(done.at - before) < 300
        assert self.store.look(scope, "key") == done

    def test_a_settled_key_is_seen_by_every_connection(self) -> None:
        name, scope = self.name(), self.name("scope")
        other = self.connect()
        assert other.look(scope, "key") is None
        grant, _ = self.take(name)
        done = self.store.settle(name, grant, scope, "key", value="mine")
        assert other.look(scope, "key") == done

    def test_the_value_that_was_settled_first_stays(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        first = self.store.settle(name, grant, scope, "key", value="first")
        self.store.release(name, grant)
        grant, _ = self.take(name)
        assert self.store.settle(name, grant, scope, "key", value="second") == first
        assert self.store.look(scope, "key") == first

    def test_other_input_under_a_done_key_is_an_error(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        first = self.store.settle(name, grant, scope, "key", input="one")
        raises(InputChanged, self.store.settle, name, grant, scope, "key", input="two")
        assert self.store.look(scope, "key") == first

    def test_input_that_is_not_known_on_both_sides_is_not_compared(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        known = self.store.settle(name, grant, scope, "known", input="one")
        assert self.store.settle(name, grant, scope, "known") == known
        unknown = self.store.settle(name, grant, scope, "unknown")
        assert self.store.settle(name, grant, scope, "unknown", input="one") == unknown

    def test_scopes_and_keys_do_not_mix(self) -> None:
        name, scope, other = self.name(), self.name("scope"), self.name("scope")
        grant, _ = self.take(name)
        done = self.store.settle(name, grant, scope, "key", value="mine")
        assert self.store.look(other, "key") is None
        assert self.store.look(scope, "other") is None
        self.store.settle(name, grant, other, "key", value="theirs")
        assert self.store.look(scope, "key") == done

    def test_any_text_can_be_a_key(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        keys = ["a", "A", "a/b", "a ", "..", "-x", "ü", "a\tb", "a=b", "%2F", "k" * 300]
        for key in keys:
            self.store.settle(name, grant, scope, key, value=key)
        for key in keys:
            done = self.store.look(scope, key)
            assert done is not None and (done.key, done.value) == (key, key)

    def test_done_keys_outlive_release_takeover_and_eviction(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, _ = self.take(name)
        done = [self.store.settle(name, grant, scope, "one")]
        grant, _ = self.take(name, over=self.takeover(name, proven=True))
        done.append(self.store.settle(name, grant, scope, "two"))
        self.store.release(name, grant)
        grant, _ = self.take(name)
        done.append(self.store.settle(name, grant, scope, "three"))
        self.store.evict(name)
        self.take(name)
        assert [self.store.look(scope, key) for key in ("one", "two", "three")] == done

    def test_a_stale_holder_is_refused_though_the_key_is_done(self) -> None:
        """Otherwise it would believe that its own work is what was recorded."""
        name, scope = self.name(), self.name("scope")
        old, _ = self.take(name)
        done = self.store.settle(name, old, scope, "key", value="first")
        self.take(name, over=self.takeover(name, proven=True))
        raises(LeaseLost, self.store.settle, name, old, scope, "key", value="first")
        assert self.store.look(scope, "key") == done

    def test_many_keys_are_settled_at_once(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, granted = self.take(name)
        first = self.store.settle(name, grant, scope, "b", value="first")
        self.store.settle_many(name, grant, scope, {"a": "1", "b": "2", "c": "ü"})
        found = [self.connect().look(scope, key) for key in ("a", "b", "c")]
        assert [done and (done.value, done.token) for done in found] == [
            (value, granted.token) for value in ("1", "first", "ü")
        ]
        assert found[1] == first
        self.store.settle_many(name, grant, scope, {"a": "again"})
        assert self.store.look(scope, "a") == found[0]

    def test_many_keys_need_the_current_grant_too(self) -> None:
        name, scope = self.name(), self.name("scope")
        old, _ = self.take(name)
        self.take(name, over=self.takeover(name, proven=True))
        raises(LeaseLost, self.store.settle_many, name, old, scope, {"a": "1", "b": "2"})
        assert self.store.look(scope, "a") is None

    def test_one_of_many_settles_and_all_are_told_the_same(self) -> None:
        stores, scope = self.connections(), self.name("scope")
        names = [self.name() for _ in stores]
        grants = [self.take(name)[0] for name in names]

        def settle_all(index: int) -> list[Done]:
            mine = (names[index], grants[index], scope)
            return [stores[index].settle(*mine, f"key-{turn}", value=str(index)) for turn in range(self.rounds)]

        outcomes = together(settle_all, range(len(stores)))
        recorded = [self.store.look(scope, f"key-{turn}") for turn in range(self.rounds)]
        assert outcomes == [recorded] * len(stores)

    def test_a_key_settled_after_a_raise_carries_the_raised_token(self) -> None:
        name, scope = self.name(), self.name("scope")
        grant, granted = self.take(name)
        raised = self.store.raise_token(name, granted.token + 1000, grant)
        assert self.store.settle(name, grant, scope, "key").token == raised
