"""A lease held by this process: `with nightlatch.lease("reports") as lease: …`."""

from __future__ import annotations

import os
from _thread import allocate_lock

from ....core import checks, duration
from ....core.model import Begun, Mark, Record, check_name
from ....core.tenure import MINIMUM_TTL, Tenure
from ....errors import Error, LeaseLost, StoreUnreachable, UsageError
from ....store import url
from ....store.keeper import Keeper
from ....system import identity
from ....system.lifetime import Lifetime
from .acquire import acquire, lineage, set_lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....core.protocols import Gate, Store


def ttl_seconds(text: str | None, store: Store) -> float:
    if text is None:
        return store.default_ttl
    seconds = duration.parse(text, what="ttl")
    if seconds < MINIMUM_TTL:
        raise UsageError(f"a ttl of {text} is too short to renew in time: use at least {duration.show(MINIMUM_TTL)}")
    return seconds


class Lease:
    """A lease that is held. It renews itself; after release or loss it refuses everything.

    `token` grows with every grant of the name, on every machine that shares the store: pass it to
    the system you write to, and have that refuse a lower one. Call `check` before a step that must
    not happen twice: it raises if the lease is no longer held. Between the check and the write only
    a gate protects.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        ttl: float,
        wait: float,
        gates: Iterable[Gate] = (),
        lifetime: Lifetime | None = None,
        begin: Begun | None = None,
        on_wait: Callable[[Record | None], None] = lambda _: None,
        on_tenure: Callable[[Tenure], None] = lambda _: None,
        on_lost: Callable[[LeaseLost], None] = lambda _: None,
        on_failure: Callable[[], None] = lambda: None,
        lazy: bool = False,
    ) -> None:
        """`begin`: the key to work on, for a store that lists keys begun and not ended. The release takes the entries
        in `ended` off that list: at first this key's; a run clears `ended` when its work begins, and fills it when
        the work has ended. `on_failure`: called if the lease cannot be had, before what proves that we live is removed.
        `lazy`: the caller writes to the store before anything sees the token."""
        self.name = name
        self.store = store
        self.ttl = ttl
        self._owner = os.getpid()
        self._released: LeaseLost | None = None
        self._sealing = allocate_lock()
        self._lifetime = lifetime or Lifetime(store.folder)
        self.grant = self._lifetime.grant
        try:
            self.holder = identity.holder(pid=os.getpid(), lifetime=self._lifetime.path)
            granted, tenure = acquire(store, name, self.grant, self.holder, ttl, wait, begin, on_wait, lazy=lazy)
        except BaseException as error:
            on_failure()
            if isinstance(error, Error) and not isinstance(error, StoreUnreachable):
                self._lifetime.end()
            else:
                self._lifetime.close()  # perhaps it was granted: the file proves to the next holder that we are gone
            raise
        self.token, self.known, self.begun = granted.token, granted.known, granted.begun
        self.ended: set[int] = {granted.token} if begin else set()  # tokens of entries that the release takes off
        # Child processes inherit the grant, so that a challenger can find them if we are killed.
        set_lineage([*lineage(), self.grant])
        on_tenure(tenure)
        self._keeper = Keeper(store, name, self.grant, tenure, on_tenure=on_tenure, on_lost=on_lost)
        if granted.gates or gates:
            from .seal import seal_all

            try:
                if lazy:  # a gate that knows a grant which the store has forgotten would need a person
                    store.renew(name, self.grant, ttl)
                seal_all(self, granted.gates, gates)
            except BaseException:
                on_failure()
                self.release()  # a gate that cannot be sealed means no lease
                raise

    @property
    def mark(self) -> Mark:
        """What a gate compares and remembers."""
        return Mark(store=self.store.id, name=self.name, token=self.token, grant=self.grant)

    def use(self, gate: Gate) -> None:
        """Seal a gate and register it under this lease, for every later holder too. Call it before the first write."""
        from .seal import seal_in_work

        checks.gate(gate)
        self.check()
        with self._sealing:
            seal_in_work(self, gate)

    def raise_above(self, token: int) -> None:
        """Raise our token above one that a gate has seen, after the store was restored from an older backup."""
        before, self.token = self.token, self.store.raise_token(self.name, token, self.grant)
        self.ended = {self.token if ended == before else ended for ended in self.ended}

    def check(self) -> None:
        """Return while the lease is certainly held; raise `LeaseLost` otherwise."""
        if self._owner != os.getpid():
            raise LeaseLost(f"the lease {self.name} belongs to the process that acquired it", reason="released")
        if self._released:
            raise self._released
        self._keeper.check()

    @property
    def is_sure(self) -> bool:
        """False while the work is frozen because no renewal was confirmed recently, and when the lease is lost."""
        return not self._released and self._keeper.is_sure

    @property
    def sure_until(self) -> float:
        """When the work will be frozen, unless a renewal is confirmed before; by the suspend-proof clock."""
        return self._keeper.sure_until

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease is no longer held; None while it is."""
        return self._released or self._keeper.lost

    def release(self) -> None:
        """Release the lease. Its record and token stay. A second call does nothing."""
        if self._released or self._owner != os.getpid():
            return
        self._keeper.stop()
        lost = self._keeper.lost
        self._released = lost or LeaseLost(f"the lease {self.name} was released", reason="released")
        set_lineage([grant for grant in lineage() if grant != self.grant])
        try:
            if lost and lost.reason == "expired":
                raise StoreUnreachable("it did not answer in time, and there is no time left to wait for it")
            self.store.release(self.name, self.grant, *([self.ended] if self.ended else []))
        except LeaseLost:
            pass  # another holder has it, or the release succeeded and its reply was lost
        except StoreUnreachable:
            self._lifetime.close()  # the lifetime file stays: it lets the next holder prove that we are gone
            return
        self._lifetime.end()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Lease {self.name} token={self.token} {self.lost.reason if self.lost else 'held'}>"


class lease:
    """Hold the lease `name` while the block runs.

        with nightlatch.lease("reports", ttl="60s", wait="5m") as lease:
            build_report(token=lease.token)
            lease.check()

    `ttl`: how long the lease outlives a holder that stops renewing it. `wait`: how long to wait while
    another holds it; then `Busy` is raised, which names the holder. Works with `async with` too.
    `.acquire()` takes it without a block; then you call `.release()`.
    """

    def __init__(
        self,
        name: str,
        *,
        ttl: str | None = None,
        wait: str = "0s",
        gates: Iterable[Gate] = (),
        store: Store | str | None = None,
    ) -> None:
        self._name = check_name(name)
        self._store = url.shared(store) if store is None or isinstance(store, str) else store
        if not hasattr(self._store, "default_ttl"):
            raise UsageError(f"store is {checks.shown(store)}: give a URL, or what nightlatch.connect returns")
        self._ttl = ttl_seconds(ttl, self._store)
        self._wait = duration.parse(wait, what="wait")
        self._gates = checks.gates(gates)
        self._lease: Lease | None = None

    def acquire(self) -> Lease:
        return Lease(self._store, self._name, ttl=self._ttl, wait=self._wait, gates=self._gates)

    def __enter__(self) -> Lease:
        self._lease = self.acquire()
        return self._lease

    def __exit__(self, *_: object) -> None:
        assert self._lease
        self._lease.release()

    async def __aenter__(self) -> Lease:
        import asyncio

        self._lease = await asyncio.to_thread(self.acquire)
        return self._lease

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        assert self._lease
        await asyncio.to_thread(self._lease.release)
