"""The two seams: a store and a gate. Imported for their types only; nothing derives from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from .fence import KeptMark, Refusal
from .model import Begun, Done, Granted, Holder, KnownGrants, Mark, Record, Takeover
from .row import Cursor, Move


class Store(Protocol):
    """Which holder may act, and what is already done.

    A verb that returns has happened. One that raises `StoreUnreachable` may have happened or not. Every verb is safe to
    send again with the same arguments, so the caller resolves an unknown outcome by sending it again.
    Verbs that write for a holder need its current grant, and raise `LeaseLost` without it.
    """

    url: str
    folder: str  # a folder on this machine for lifetime locks, queues and sightings
    default_ttl: float
    lists_begun: bool  # see `acquire`; False where all machines share one ledger, which has that list

    @property
    def id(self) -> str:
        """Random, made with the store: two stores never share one."""

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        """Take a lease that is free, already this grant's, or another's if `over` says why.

        `begin` names the key that is about to be worked on. A store that `lists_begun` puts it on the lease's list in
        the same write, with the holder's host and token, and returns it to every later holder until it is settled
        (`settle` with the lease's name as scope) or a release names its token.

        The token is higher than any before it under this name. Raises `Busy` with the record. Asking for a lease that
        is held disturbs no other process: the store reads it before it locks or writes anything.
        """

    def renew(self, name: str, grant: str, ttl: float) -> None:
        """Give the grant another `ttl` seconds from now by the store's clock."""

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        """End the grant. The record and its token stay; entries of these tokens leave the list of keys begun."""

    def evict(self, name: str) -> bool:
        """End the current grant, whatever it is, because a person decided so. False: there was none."""

    def read(self, name: str) -> Record | None:
        """The lease as it is now; None if the name was never held."""

    def records(self) -> Iterator[Record]:
        """Every lease ever held, by name."""

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        """Lift the name's token above `above` and above itself; returns it.

        With a grant: for its holder, whose token it becomes. Without: because a person decided so.
        """

    def look(self, scope: str, key: str) -> Done | None:
        """The done key, if it is done."""

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        """Mark a key done, for good, under the lease `name`. A key that is done already stays as it was.

        Raises `InputChanged` if it was done with other input.
        """

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        """Mark many keys done as `settle` does, each with its value, all or none where the store can."""

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        """The jobs' rows: all, those of these `jobs`, or those that are worth a look at the time `due`."""

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move many rows in one go; says of each whether its move is the row's last one.

        A row moves only from the move that was `seen`, and its slot not past the store's clock, unless it was there
        before. A row that another is moving in this moment may be left: not won, and worth another look. A move that
        is sent again finds its own id there, and has won; if another has moved the row since, it has not.
        """

    def register(self, name: str, grant: str, gate: str) -> bool:
        """Put a gate on the list that every later acquire of `name` returns. False: it was there already."""

    def gates(self, name: str) -> tuple[str, ...]:
        """Every gate registered under `name`."""

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        """Take a gate off that list. False: it was not there.

        With a grant: for its holder, which has written nothing there, or will never write there again. Without: for a
        person who says that the gate is gone for good.
        """

    def listen(self, name: str) -> ReleaseWaiter:
        """Begin to wait for `name`: the waiter notices every release from now on, if the store notifies at all.

        Never raises: where there are no notifications, the waiter polls.
        """

    def may_expire_by_observation(self, record: Record) -> bool:
        """May a record whose `left` is None be taken over after it was watched unchanged for its TTL?

        Raises if it must not: it belongs to another machine, on a store that serves only one.
        """

    def clock(self) -> float:
        """The wall clock that all users of this store share, as far as it has one."""

    def close(self) -> None:
        """Close the connections. The store may be used again; it opens what it needs."""


class ReleaseWaiter(Protocol):
    """Waits for the release of one lease. The store decides how often it polls."""

    def wait(self, seconds: float) -> None:
        """Return when another acquire is worth trying, after `seconds` at the latest.

        That may be at once: a notification is a hint, and only an acquire shows whether the lease is free.
        """

    def close(self) -> None:
        """Stop waiting."""


class Gate(Protocol):
    """May this write land? The mark is verified at the write target, atomically with the write.

    Each gate writes in its own way; what all have in common is that they are opened by URL and sealed.
    """

    @property
    def url(self) -> str:
        """What it is registered as; `gates.open(url)` opens it on any machine."""

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Raise the gate's mark, so that every older grant is refused from now on; returns the mark before.

        Durable when it returns. Raises `StaleToken` if the gate has a newer mark, `OtherStore` if it is fenced from
        another store, `Forgotten` (and the mark stays) if the gate's mark is of a grant that is not `known`,
        `GateUnreachable` if it cannot be sealed.
        """


class Registrable(Gate, Protocol):
    """A gate that a lease registers and seals by itself, when it first writes through it."""

    registered: Mark | None
    """The mark with which this object was sealed and then registered in the store; None until both are done. A write
    through a gate that is not registered would not be fenced: the next holder does not know the gate."""


class Inspectable(Gate, Protocol):
    """A gate that a person can inspect and correct: `nightlatch gate`."""

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""

    def refusals(self) -> list[Refusal]:
        """The refusals that the gate still keeps, the oldest first."""

    def adopt(self, store: str) -> int:
        """Re-key the marks of other stores to this one, tokens kept; returns how many there were."""


class Bearer(Protocol):
    """What writes through a gate, as the gate sees it: a lease, or one inherited from the environment."""

    holder: Holder

    @property
    def mark(self) -> Mark:
        """What a gate compares and remembers."""

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is certainly no longer held."""

    def use(self, gate: Gate) -> None:
        """Register the gate under the lease's name and seal it."""
