"""A writer's position in its run: the token, the grant and the head that the run's row must still have."""

from __future__ import annotations

from ..core import statuses
from ..errors import RunEnded, StaleToken, StoreUnreachable
from .records import RUN, RunRow
from .sealing import stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Tables

    # (seq, head) → the next seq and head, and a function that writes them; it returns False if the fence refuses.
    Compose = Callable[[int, str], tuple[int, str, Callable[[], bool]]]

# Condition for advancing the run's row. A person's decision leaves the head alone, so it disturbs no writer.
WHERE = "WHERE id = :id AND token = :token AND grant_id = :grant AND head = :was AND status = 'running'"


class RunFence:
    """For one thread at a time."""

    def __init__(self, tables: Tables, run: RunRow, skew: float) -> None:
        self._tables, self._run, self.skew = tables, run, skew
        self.seq, self.head = run.seq, run.head
        self._unconfirmed: dict[str, int] = {}  # heads whose commit was never confirmed → seq
        self.landed: set[str] = set()  # those of them that were found in the run's row

    def values(self) -> dict[str, object]:
        return {"id": self._run.id, "token": self._run.token, "grant": self._run.grant, "was": self.head}

    def now(self) -> int:
        """The ledger's clock, in ms: this machine's `local_now`, corrected by `skew`."""
        return int((self._tables.local_now() + self.skew) * 1000)

    def look(self) -> RunRow:
        run = self._tables.first(RUN, "WHERE id = :id", id=self._run.id)
        if run is None:
            raise StaleToken(f"{self._run.title} is gone: retention has removed it. Nothing was written; stop this one")
        return run

    def advance(self, compose: Compose) -> None:
        """Write what `compose` makes of the run's present head; durable when this returns.

        Raises StaleToken or RunEnded if nothing was written, StoreUnreachable if nobody knows whether it was.
        """
        while True:
            seq, head, write = compose(self.seq, self.head)
            try:
                written = write()
            except StoreUnreachable:
                self._unconfirmed[head] = seq
                found = self.current_head(self.look())
                written = found == head  # only the reply may have been lost
                if not written and not self._has_gone_on(found):
                    raise
            except BaseException:
                self._unconfirmed[head] = seq
                raise
            if written:
                self.seq, self.head = seq, head
                self._unconfirmed.clear()
                return
            # One of our unconfirmed writes may have landed late; otherwise these calls raise.
            self._go_on(self.check())

    def current_head(self, run: RunRow) -> str:
        """The present head of the chain that this fence advances."""
        return run.head

    def _has_gone_on(self, found: str) -> bool:
        """Has the chain gone on? Then an unconfirmed write has landed, or can no longer land."""
        return False

    def was_mine(self, run: RunRow) -> bool:
        """Was the run's present head written by this fence, in a write whose reply was lost?"""
        return run.head in self._unconfirmed

    def check(self) -> RunRow:
        """The run, if this is still its writer; raises StaleToken or RunEnded."""
        run = self.look()
        if (run.token, run.grant) != (self._run.token, self._run.grant):
            raise stale(self._tables.database.identity(), run, self._run.token, self._run.grant)
        if run.status != statuses.RUNNING:
            raise RunEnded(f"{run.title} has ended: {run.status}. Nothing more is recorded for it", run)
        return run

    def _go_on(self, run: RunRow) -> None:
        if run.head not in self._unconfirmed:
            raise StaleToken(
                f"another process writes {run.title} with the same grant (token {run.token}), and a run has one "
                f"writer. Nothing was written; stop this one"
            )
        self.landed.add(run.head)
        self.seq, self.head = self._unconfirmed.pop(run.head), run.head
