"""The base class of the tests of a store: what the store's author defines, and helpers."""

from __future__ import annotations

from ...core.model import Granted, Holder, Record, Takeover
from ...core.protocols import Store
from ...errors import UsageError
from ...store.sightings import MARGIN
from ...system import clock, identity
from ..expect import until

LONG = 60.0  # seconds; a TTL that does not end within a test


class StoreCase:
    has_clock = True  # does the store judge expiry by its own clock? Then a record's `left` is a number
    ttl = 1.0  # seconds; the TTL of leases that a test lets expire
    factor = 1.0  # how many times longer than for a local file the tests wait
    racers = 4  # how many threads, or processes, do the same thing at once
    rounds = 5  # how often a race is run

    def open(self) -> Store:
        """A new connection to the store under test: within one test always the same store.

        One store may serve all tests: each uses names that no other test has.
        """
        raise NotImplementedError("say how to open the store: def open(self): return MyStore(…)")

    def elsewhere(self) -> str:
        """A Python expression by which another process opens the store; "" if none can.

        By default `nightlatch.connect(url)`, if that makes the same kind of store.
        """
        from ...store.url import connect

        try:
            same = type(connect(self.store.url)) is type(self.store)
        except UsageError:
            same = False
        return f"__import__('nightlatch').connect({self.store.url!r})" if same else ""

    # Helpers:

    @property
    def store(self) -> Store:
        """The test's first connection, opened at first use."""
        opened = self._open_stores()
        return opened[0] if opened else self.connect()

    def connect(self) -> Store:
        """One more connection to the same store; closed when the test ends."""
        store = self.open()
        self._open_stores().append(store)
        return store

    def connections(self) -> list[Store]:
        """A connection for each racer, already open, so that opening is not part of the race."""
        stores = [self.connect() for _ in range(self.racers)]
        for store in stores:
            store.read("conformance/open")
        return stores

    def name(self, word: str = "lease") -> str:
        """A name that no other test uses."""
        return f"conformance/{word}-{identity.new_id()[:12]}"

    def holder(self) -> Holder:
        """A holder without a process: only the TTL can show that it is gone."""
        return identity.holder(pid=0)

    def take(
        self, name: str, *, ttl: float = LONG, over: Takeover | None = None, store: Store | None = None
    ) -> tuple[str, Granted]:
        """Acquire the lease under a new grant; returns the grant, and what the store returned."""
        grant = identity.new_id()
        return grant, (store or self.store).acquire(name, grant, self.holder(), ttl, over)

    def held(self, *, ttl: float = LONG) -> tuple[str, str, Granted]:
        """A lease that is held: its name, its grant, and what the store returned."""
        name = self.name()
        return name, *self.take(name, ttl=ttl)

    def record(self, name: str) -> Record:
        record = self.store.read(name)
        assert record is not None, f"the record of {name} is gone: a record is never deleted"
        return record

    def takeover(self, name: str, *, proven: bool) -> Takeover:
        """A takeover of the current grant, as a challenger sees it now."""
        record = self.record(name)
        return Takeover(grant=record.grant, version=record.version, proven=proven)

    def lapsed(self, name: str) -> Takeover:
        """Wait until the current grant may be taken over; returns that takeover.

        Where the store has a clock, it must find the grant expired. Where it has none, the challenger
        must have seen it unchanged for longer than its TTL, by the challenger's own clock.
        """
        seen, first = self.record(name), clock.now()
        if self.has_clock:
            self.until(lambda: _left(self.record(name)) <= 0, f"{name} has expired by the store's clock", seen.ttl)
            return self.takeover(name, proven=False)
        self.until(lambda: clock.now() - first > seen.ttl * MARGIN, f"{name} stood still for its TTL", seen.ttl * 2)
        return Takeover(grant=seen.grant, version=seen.version, proven=True)

    def until(self, condition: object, what: str, seconds: float = 0.0) -> None:
        """Wait for a condition: `seconds`, and a generous margin for a busy machine."""
        assert callable(condition)
        until(condition, (seconds + 20.0) * self.factor, what)

    def teardown_method(self) -> None:
        for store in self._open_stores():
            store.close()

    def _open_stores(self) -> list[Store]:
        opened: list[Store] = self.__dict__.setdefault("_connections", [])
        return opened


def _left(record: Record) -> float:
    assert record.left is not None, "a store with a clock says how much time a grant has left"
    return record.left
