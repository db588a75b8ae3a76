"""The two interfaces, a store and a gate, for type checkers only: no class derives from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from .fence import KeptMark, Refusal
from .model import Begun, Done, Granted, Holder, KnownGrants, Mark, Record, Takeover
from .row import Cursor, Move


class Store(Protocol):
    """Which holder may act, and what is already done.

    A verb that returns has taken effect. One that raises `StoreUnreachable` may have taken effect or not. Every verb is
    safe to repeat with the same arguments, so a caller resolves an unknown outcome by calling it again.
    Verbs that write for a holder need its current grant; with any other they raise `LeaseLost`.
    """

    url: str
    folder: str  # a folder on this machine for lifetime locks, queues and sightings
    default_ttl: float
    lists_begun: bool  # see `acquire`; True where each machine has its own ledger. A shared ledger lists the keys

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
        """Take a lease that is free, already this grant's, or another's if `over` says why. Raises `Busy` with the
        record if it is held. The token is higher than any given out for this name before.

        `begin` names the key that is about to be worked on. A store that `lists_begun` puts it on the lease's list in
        the same write, with the holder's host and token, and returns it to every later holder until the key is settled
        (`settle` with the lease's name as scope) or a release names the entry's token.

        Asking for a lease that is held disturbs no other process: the store reads it before it locks or writes
        anything.
        """

    def renew(self, name: str, grant: str, ttl: float) -> None:
        """Give the grant another `ttl` seconds from now by the store's clock."""

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        """End the grant. The record and its token stay. Keys begun under the tokens in `ended` leave the list."""

    def evict(self, name: str) -> bool:
        """End the current grant, whichever it is, because a person decided so. False: there was none."""

    def read(self, name: str) -> Record | None:
        """The lease as it is now; None if the name was never held."""

    def records(self) -> Iterator[Record]:
        """Every lease ever held, in the order of their names."""

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        """Raise the name's token above `above` and above its present value; returns the new token.

        With a grant: for its holder, which then has the new token. Without: because a person decided so.
        """

    def look(self, scope: str, key: str) -> Done | None:
        """What is recorded of a done key; None if it is not done."""

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        """Mark a key done, for good, under the lease `name`. A key that is done already keeps its record.

        Raises `InputChanged` if it was done with other input.
        """

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        """Mark many keys done as `settle` does, each with its value; all or none, if the store has transactions."""

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        """The rows of all jobs, of these `jobs`, or of those that a scheduler should look at by the time `due`."""

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move many rows in one request; returns for each whether it has won, that is, is the row's last move.

        A row moves only if its last move is still the one `seen`. Its slot never moves past the store's clock, unless
        it was past it before. A row that another process is moving right now may be skipped: not won, look again. A
        move that is sent again finds its own id in the row and has won, unless another move has followed it.
        """

    def register(self, name: str, grant: str, gate: str) -> bool:
        """Put a gate on the list that every later acquire of `name` returns. False: it was there already."""

    def gates(self, name: str) -> tuple[str, ...]:
        """Every gate registered under `name`."""

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        """Take a gate off the list of `register`. False: it was not there.

        With a grant: for its holder, which has written nothing through the gate, or never will again. Without: for a
        person who says that the gate is gone for good.
        """

    def listen(self, name: str) -> ReleaseWaiter:
        """Begin to wait for `name`: the waiter notices every release from now on, if the store notifies at all.

        Never raises: where there are no notifications, the waiter polls.
        """

    def may_expire_by_observation(self, record: Record) -> bool:
        """May a record whose `left` is None be taken over after it was watched unchanged for its TTL?

        Raises if the record belongs to another machine although the store serves only one.
        """

    def clock(self) -> float:
        """The store's wall clock, the same for all its users; this machine's if the store has none."""

    def close(self) -> None:
        """Close the connections. The store may be used again; it opens what it needs."""


class ReleaseWaiter(Protocol):
    """Waits for the release of one lease. The store decides how often the waiter polls."""

    def wait(self, seconds: float) -> None:
        """Return when another acquire is worth trying, after `seconds` at the latest.

        That may be at once: a notification is a hint, and only an acquire shows whether the lease is free.
        """

    def close(self) -> None:
        """Stop waiting."""


class Gate(Protocol):
    """May this write land? The mark is verified at the write target, atomically with the write.

    Each kind of gate has its own way to write. All are opened by URL and sealed.
    """

    @property
    def url(self) -> str:
        """The URL that it is registered under; `gates.open(url)` opens it on any machine."""

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Raise the gate's mark, so that every older grant is refused from now on; returns the previous mark.

        Durable when it returns. Raises `StaleToken` if the gate has a newer mark, `OtherStore` if it is fenced from
        another store, `Forgotten` (and the mark stays) if the gate's mark is of a grant that is not in `known`,
        `GateUnreachable` if it cannot be sealed.
        """


class Registrable(Gate, Protocol):
    """A gate that a lease registers and seals automatically at its first write."""

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
        """Re-key the marks of other stores to this one, with their tokens; returns how many there were."""


class Bearer(Protocol):
    """The lease that writes through a gate, held by this process or inherited from the environment."""

    holder: Holder

    @property
    def mark(self) -> Mark:
        """What a gate compares and remembers."""

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is certainly no longer held."""

    def use(self, gate: Gate) -> None:
        """Register the gate under the lease's name and seal it."""
