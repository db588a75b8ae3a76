"""A store is the same store through every connection, after every close, and from every thread."""

from __future__ import annotations

from ..expect import together
from .cursors import move
from .store_case import LONG, StoreCase

PAST = 1_700_000_000.0


class Connections(StoreCase):
    def test_two_connections_agree_on_the_id_of_the_store(self) -> None:
        assert self.store.id
        assert self.connect().id == self.store.id
        assert self.connect().url == self.store.url

    def test_many_connections_that_open_at_once_agree_on_the_id_of_the_store(self) -> None:
        stores = [self.connect() for _ in range(self.racers)]
        assert together(lambda store: store.id, stores) == [self.store.id] * len(stores)

    def test_two_connections_agree_on_a_lease(self) -> None:
        name, other = self.name(), self.connect()
        grant, granted = self.take(name)
        seen = other.read(name)
        assert seen is not None and (seen.grant, seen.token) == (grant, granted.token)
        other.renew(name, grant, LONG)
        assert other.read(name) != seen
        other.release(name, grant)
        assert self.record(name).grant == ""

    def test_a_closed_store_opens_again_and_remembers_everything(self) -> None:
        name, scope, job, store = self.name(), self.name("scope"), self.name("job"), self.store
        store_id = store.id
        grant, granted = self.take(name)
        store.register(name, grant, "file:///out")
        done = store.settle(name, grant, scope, "key", value="v")
        store.advance([move(job)])
        rows = store.cursors([job])
        store.close()
        assert store.id == store_id
        store.renew(name, grant, LONG)
        record = self.record(name)
        assert (record.grant, record.token) == (grant, granted.token)
        assert store.look(scope, "key") == done
        assert store.cursors([job]) == rows and len(rows) == 1
        store.close()
        assert self.take(name, over=self.takeover(name, proven=True))[1].gates == ("file:///out",)

    def test_a_store_may_be_closed_twice_and_before_its_first_use(self) -> None:
        store = self.connect()
        store.close()
        store.close()
        assert store.read(self.name()) is None
        store.close()
        store.close()

    def test_closing_one_connection_leaves_the_others_open(self) -> None:
        name, other = self.name(), self.connect()
        grant, _ = self.take(name, store=other)
        self.store.read(name)
        self.store.close()
        other.renew(name, grant, LONG)

    def test_threads_can_share_a_connection(self) -> None:
        store, scope = self.store, self.name("scope")

        def work(place: int) -> int:
            name = self.name()
            grant, granted = self.take(name, store=store)
            store.renew(name, grant, LONG)
            store.settle(name, grant, scope, str(place), value=name)
            store.register(name, grant, "file:///out")
            store.release(name, grant)
            again = self.take(name, store=store)[1]
            assert (again.previous, again.gates) == (granted.token, ("file:///out",))
            return place

        racers = range(self.racers)
        assert together(work, racers) == list(racers)
        assert all(store.look(scope, str(place)) for place in racers)

    def test_the_clock_goes_forward(self) -> None:
        first, second = self.store.clock(), self.connect().clock()
        assert first > PAST
        assert second > first - 1, "all users of a store agree on its clock, as far as it has one"
