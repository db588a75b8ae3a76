"""A gate that is registered under a name is returned to every later holder, so that it can be sealed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core.protocols import Store
from ...errors import Busy, LeaseLost
from ...system import clock, identity
from ..expect import moments, timed, together
from .store_case import LONG, StoreCase


class GateRegistry(StoreCase):
    def test_a_new_lease_has_no_gates(self) -> None:
        assert self.take(self.name())[1].gates == ()

    def test_a_registered_gate_is_returned_to_the_next_holder(self) -> None:
        name, grant, _ = self.held()
        assert self.store.register(name, grant, "file:///out") is True
        self.store.release(name, grant)
        assert self.take(name, store=self.connect())[1].gates == ("file:///out",)

    def test_gates_outlive_release_takeover_eviction_and_raise(self) -> None:
        name, grant, granted = self.held()
        self.store.register(name, grant, "file:///one")
        grant, granted = self.take(name, over=self.takeover(name, proven=True))
        assert granted.gates == ("file:///one",)
        self.store.register(name, grant, "file:///two")
        self.store.evict(name)
        grant, granted = self.take(name)
        assert sorted(granted.gates) == ["file:///one", "file:///two"]
        self.store.raise_token(name, granted.token + 10, grant)
        self.store.release(name, grant)
        for _ in range(2):
            grant, granted = self.take(name)
            assert sorted(granted.gates) == ["file:///one", "file:///two"]
            self.store.release(name, grant)

    def test_a_gate_that_is_gone_for_good_is_taken_off_the_list(self) -> None:
        name, grant, _ = self.held()
        for gate in ("file:///gone", "file:///stays"):
            self.store.register(name, grant, gate)
        assert sorted(self.connect().gates(name)) == ["file:///gone", "file:///stays"]
        assert self.store.unregister(name, "file:///gone") is True
        assert self.store.unregister(name, "file:///gone") is False
        assert self.store.unregister(self.name(), "file:///stays") is False
        self.store.release(name, grant)
        assert (self.store.gates(name), self.store.gates(self.name())) == (("file:///stays",), ())
        assert self.take(name)[1].gates == ("file:///stays",)

    def test_a_holder_takes_off_the_list_what_it_put_there(self) -> None:
        name, grant, _ = self.held()
        for gate in ("file:///mistyped", "file:///stays"):
            self.store.register(name, grant, gate)
        assert self.store.unregister(name, "file:///mistyped", grant) is True
        assert self.store.unregister(name, "file:///mistyped", grant) is False
        self.store.release(name, grant)
        grant, granted = self.take(name)
        assert granted.gates == ("file:///stays",)
        assert self.store.unregister(name, "file:///stays", grant) is True
        assert self.take(name, over=self.takeover(name, proven=True))[1].gates == ()

    def test_a_gate_is_listed_once(self) -> None:
        name, grant, _ = self.held()
        assert self.store.register(name, grant, "file:///out") is True
        assert self.store.register(name, grant, "file:///out") is False
        self.store.release(name, grant)
        grant, granted = self.take(name)
        assert granted.gates == ("file:///out",)
        assert self.store.register(name, grant, "file:///out") is False

    def test_everybody_gets_the_gates_in_one_order(self) -> None:
        name, grant, gates = self.name(), identity.new_id(), [f"file:///{word}" for word in "bcaed"]
        self.store.acquire(name, grant, self.holder(), LONG)
        for gate in gates:
            self.store.register(name, grant, gate)
        first = self.store.acquire(name, grant, self.holder(), LONG).gates
        assert sorted(first) == sorted(gates)
        assert self.connect().acquire(name, grant, self.holder(), LONG).gates == first
        assert self.take(name, over=self.takeover(name, proven=True))[1].gates == first

    def test_names_do_not_share_gates(self) -> None:
        one, other = self.name(), self.name()
        grant, _ = self.take(one)
        self.store.register(one, grant, "file:///out")
        assert self.take(other)[1].gates == ()

    def test_any_url_can_be_a_gate(self) -> None:
        name, gate = self.name(), "postgresql://u:p%40w@h:5/db?x=a b&y=ü#tab\tle"
        grant, _ = self.take(name)
        self.store.register(name, grant, gate)
        assert self.take(name, over=self.takeover(name, proven=True))[1].gates == (gate,)

    def test_a_gate_registered_during_a_takeover_is_seen_by_the_taker_or_refused(self) -> None:
        """Otherwise the new holder would not seal it, and the old one could still write there."""
        for registered, taken, listed in self._during_takeovers(lambda s, n, g: s.register(n, g, "file:///out")):
            assert taken == listed
            if isinstance(registered, LeaseLost):
                assert taken == ()
            else:
                assert (registered, taken) == (True, ("file:///out",))

    def test_removing_a_gate_during_a_takeover_is_seen_by_the_taker_or_refused(self) -> None:
        """Otherwise the old holder drops a gate that the new one has sealed and goes on to use."""
        drop = self._during_takeovers(lambda s, n, g: s.unregister(n, "file:///out", g), gates=("file:///out",))
        for dropped, taken, listed in drop:
            assert taken == listed
            if isinstance(dropped, LeaseLost):
                assert taken == ("file:///out",)
            else:
                assert (dropped, taken) == (True, ())

    def _during_takeovers(
        self, verb: Callable[[Store, str, str], bool], gates: tuple[str, ...] = ()
    ) -> Iterator[tuple[object, object, tuple[str, ...]]]:
        """How the old holder's request ended, and the gates that the next holder and the one after it are given."""
        mine, theirs, first = self.connect(), self.connect(), self.name()
        grant, _ = self.take(first)
        theirs.read(first)
        for delay in moments(timed(lambda: mine.register(first, grant, "file:///first")), self.rounds):
            name = self.name()
            acted, taken = self._during_takeover(mine, theirs, name, delay, verb, gates)
            yield acted, taken, self.take(name, over=self.takeover(name, proven=True))[1].gates

    def _during_takeover(
        self,
        mine: Store,
        theirs: Store,
        name: str,
        delay: float,
        verb: Callable[[Store, str, str], bool],
        gates: tuple[str, ...],
    ) -> list[object]:
        grant, _ = self.take(name)
        for gate in gates:
            mine.register(name, grant, gate)
        over = self.takeover(name, proven=True)

        def take() -> tuple[str, ...]:
            clock.sleep(delay)
            try:
                return self.take(name, over=over, store=theirs)[1].gates
            except Busy:  # the verb changed the version, so the proof was void
                return self.take(name, over=self.takeover(name, proven=True), store=theirs)[1].gates

        return list(together(lambda store: verb(store, name, grant) if store is mine else take(), [mine, theirs]))
