"""`overlap = "cancel"`: a slot is due while the job's last run is still at work, and that run is asked to end."""

from __future__ import annotations

from ..core import statuses
from ..core.row import Row
from ..core.value import replace
from ..errors import RunEnded
from ..ledger.ledger import Ledger


def request_cancel(ledger: Ledger, row: Row, host: str) -> None:
    """Request a cancel of the running run. If its ledger is on another machine, see `with_cancel`."""
    for run in ledger.history.runs(job=row.job, limit=20):
        if run.status in (statuses.RUNNING, statuses.WAITING) and not run.cancel and not run.approved:
            try:
                ledger.decisions.request_cancel(run.id, f"overlap on {host}")
            except RunEnded:
                pass  # it has ended meanwhile


def with_cancel(row: Row, host: str) -> Row:
    """The row with the request: where each machine has a separate ledger, the holder finds it there when it renews."""
    claim = row.claim
    if claim is None or not claim.is_open or claim.cancel:
        return row
    return replace(row, claim=replace(claim, cancel=f"overlap on {host}"))
