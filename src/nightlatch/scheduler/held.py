"""Plans that wait for an approval: the scheduler makes row and ledger agree about them, and lets a plan expire that
nobody approved in time.

Where machines share a ledger, the run's change there from held to pending or cancelled decides, and the row follows.
Where each machine has a separate ledger (git), the row decides, and the ledger of the plan's host follows.
"""

from __future__ import annotations

from ..core import statuses
from ..core.protocols import Store
from ..core.row import APPROVER, Row
from ..core.value import replace
from ..errors import StoreUnreachable
from ..ledger.ledger import Ledger
from ..ledger.records import RunRow
from ..runtime.supervisor.publishing.held import discard
from ..runtime.supervisor.run import approval

_EXPIRED = "nobody approved it in time"


class HeldPlans:
    def __init__(self, store: Store, ledger: Ledger, host: str) -> None:
        self._store, self._ledger, self._host = store, ledger, host
        self._separate_ledgers = store.lists_begun

    def agreed(self, row: Row) -> Row:
        """The row, made to agree with the ledger about its plan: a process may have changed one and been killed."""
        held = row.claim.held if row.claim and row.claim.is_open else None
        if self._separate_ledgers:
            self._follow(row)
            return row
        if row.claim is None or held is None or APPROVER in held:
            return row
        run = self._ledger.run(held["run"])
        if run is None or run.held is not None:
            return row
        if run.approved:
            return replace(row, claim=replace(row.claim, held={**held, APPROVER: "approved"}))
        return approval.refused(row, self._store) if run.status == statuses.CANCELLED else row

    def _follow(self, row: Row) -> None:
        """Cancel this machine's plans that the row does not hold: another machine refused them or let them expire."""
        for run in self._ledger.held(row.job):
            # A run of ours may be about to name its plan in the row.
            claimed_here = row.claim is not None and row.claim.is_open and row.claim.by == self._host
            if not approval.held_claim(row, run, self._store) and not claimed_here:
                self._cancel(run, "refused on another machine, or expired")

    def expired(self, row: Row) -> Row:
        """The row without its plan; unchanged if the ledger shows that the plan was just decided."""
        assert row.claim and row.claim.held
        if not self._separate_ledgers:
            run = self._ledger.run(row.claim.held["run"])
            if run and run.held is not None and not self._cancel(run, _EXPIRED):
                return row  # approved or refused at this moment: the next look sees which
        return approval.refused(row, self._store)

    def held_until(self, row: Row, until: float) -> Row:
        assert row.claim and row.claim.held
        return replace(row, claim=replace(row.claim, held={**row.claim.held, "until": until}))

    def may_expire(self, row: Row, unchanged: float, expires: float) -> bool:
        """May this machine let the plan expire, without a shared clock? It must be the plan's host, or have seen
        the claim unchanged for `expires` seconds."""
        held = row.claim.held if row.claim else None
        return held is None or held["host"] == self._host or unchanged >= expires

    def _cancel(self, run: RunRow, why: str) -> bool:
        ended = self._ledger.decisions.end_waiting(run, why, self._host, person=False)
        if ended is None:
            return False
        try:
            discard(self._ledger, run.id)
        except StoreUnreachable:
            pass  # retention discards it later
        return True
