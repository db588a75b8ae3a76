"""The two seams: a store and a gate. Imported for their types only; nothing derives from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from .fence import KeptMark, Refusal
from .model import Begun, Done, Granted, Holder, KnownGrants, Mark, Record, Takeover
from .row import Cursor, Move


class Store(Protocol):
    """Who may act, and what is already done.

    Every verb either happened when it returns, or raises `StoreUnreachable`: then nobody knows. Verbs
    are safe to send again with the same arguments, so an unknown outcome is settled by asking again.
    Verbs that write for a holder need its current grant and raise `LeaseLost` without it.
    """

    url: str
    folder: str  # a folder on this machine for lifetime locks, queues and sightings
    default_ttl: float
    lists_begun: bool  # see `acquire`; False where all machines share one ledger, which knows already

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
        """Take a lease that is free, already this grant's, or another's on the ground named by `over`.

        `begin` names the key that is about to be worked on. A store that `lists_begun` puts it on the lease's list in
        the same write, with the holder's host and token, and every later holder is told of it until it is settled
        (`settle` with the lease's name as scope) or a release names its token.

        The token is higher than any before it under this name. Raises `Busy` with the record; who asks
        for a lease that is held disturbs nobody: it is looked at before anything is locked or written.
        """

    def renew(self, name: str, grant: str, ttl: float) -> None:
        """Give the grant another `ttl` seconds from now by the store's clock."""

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        """End the grant. The record and its token stay; entries of these tokens leave the list of keys begun."""

    def evict(self, name: str) -> bool:
        """End whatever grant stands, on a person's word. False: there was none."""

    def read(self, name: str) -> Record | None:
        """The lease as it stands; None if the name was never held."""

    def records(self) -> Iterator[Record]:
        """Every lease ever held, by name."""

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        """Lift the name's token above `above` and above itself; returns it.

        With a grant: for its holder, whose token it becomes. Without: on a person's word.
        """

    def look(self, scope: str, key: str) -> Done | None:
        """The done key, if it is done."""

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        """Mark a key done, for good, under the lease `name`. A key that is done stays as it was first.

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
        """Put a gate on the list that every later acquire of `name` returns. False: it was there."""

    def gates(self, name: str) -> tuple[str, ...]:
        """Every gate registered under `name`."""

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        """Take a gate off that list. False: it was not there.

        With a grant: for its holder, who has written nothing there, or is done with it for good. Without: on a
        person's word that the gate is gone for good.
        """

    def listen(self, name: str) -> ReleaseWaiter:
        """Begin to wait for `name`: what is released from now on, the ear hears, if the store sends word at all.

        Never raises: a store that cannot be heard is looked at again and again.
        """

    def may_expire_by_observation(self, record: Record) -> bool:
        """May a record whose `left` is None be taken by watching it stand still for its TTL?

        Raises if it must not: another machine on a store that serves one.
        """

    def clock(self) -> float:
        """The wall clock that all users of this store agree on, as far as it has one."""

    def close(self) -> None:
        """Let go of connections. The store may be used again; it opens what it needs."""


class ReleaseWaiter(Protocol):
    """A waiter's ear for one lease. How often it is worth looking at a store is the store's own affair."""

    def wait(self, seconds: float) -> None:
        """Return when the lease is worth another look, after `seconds` at the latest.

        That may be at once: word of a release is a hint, and only an acquire tells.
        """

    def close(self) -> None:
        """The wait is over."""


class Gate(Protocol):
    """May this write land? The mark is verified at the write target, atomically with the write.

    How it writes is each gate's own affair; what all share is being found by URL and being sealed.
    """

    @property
    def url(self) -> str:
        """What it is registered as; `gates.open(url)` makes it again, on any machine."""

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Raise the gate's mark, so that every older grant is refused from now on; returns the mark before.

        Durable when it returns. Raises `StaleToken` if a newer mark stands, `OtherStore` if the gate
        is fenced from another store, `Forgotten`, and the mark stays, if it is of a grant that is not `known`,
        `GateUnreachable` if it cannot be sealed.
        """


class Registrable(Gate, Protocol):
    """A gate that a lease registers and seals by itself, when it first writes through it."""

    registered: Mark | None
    """The mark with which this object was sealed, and then registered in the store. Not between the two: what is
    written there under a gate that the next holder does not know of is not fenced by it."""


class Inspectable(Gate, Protocol):
    """A gate that a person can look into and correct: `nightlatch gate`."""

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""

    def refusals(self) -> list[Refusal]:
        """What was refused here, the oldest first, as far as it is kept."""

    def adopt(self, store: str) -> int:
        """Re-key the marks of other stores to this one, tokens kept; returns how many there were."""


class Bearer(Protocol):
    """Whoever writes through a gate, as the gate sees it: a lease, or one inherited from the environment."""

    holder: Holder

    @property
    def mark(self) -> Mark:
        """What a gate compares and remembers."""

    def check(self) -> None:
        """Raises `LeaseLost` when the lease is surely no longer held."""

    def use(self, gate: Gate) -> None:
        """Register the gate under the lease's name and seal it."""
