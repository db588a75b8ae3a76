"""A job of nightlatch.toml that is started without a claim: what its row has to record."""

from __future__ import annotations

from ....core import advice
from ....core import stage as stages
from ....core.schedule import name_of
from ....core.stage import End
from ....errors import InDoubt
from ....system import identity
from ...shared.job import definition
from . import approval, counting
from .claim import Claimed
from .rows import read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .attempt import SealedAttempt
    from .pipeline import Pipeline


def approved_claim(start: Pipeline, key: str) -> Claimed | None:
    """The claim of an approved run that this start goes on with. Raises `InDoubt` if its plan waits on a machine
    that does not share this ledger."""
    known = start.ledger.find(start.job.name, key)
    if known and known.approved:
        claim = approval.take_over(start.store, start.ledger, known, f"{identity.user()}@{start.host}")
        return Claimed(start.job, claim) if claim else None
    row = read_row(start.store, start.job.name) if start.store.lists_begun else None
    held = row.claim.held if row and row.claim and row.claim.is_open and name_of(row.claim.slot) == key else None
    if held and not known:
        raise InDoubt(
            f"{start.job.name} ({key}) waits for an approval on {held['host']}: there, "
            f"{advice.command('approve', held['run'])}"
        )
    return None


def stage(start: Pipeline) -> str:
    """The job's stage; its row is made if the store does not know it yet."""
    return stages.of(counting.ensure_row(start.store, start.ledger, start.job), start.job.stage)


def uncounted(attempt: SealedAttempt, status: str, *, clean: bool, own_cap: bool) -> str:
    """The attempt's end as text, which the ledger keeps until it is counted."""
    end = End(
        id=attempt.lease.grant, status=status, definition=definition(attempt.job), stage=attempt.start.stage,
        clean=clean, own_cap=own_cap,
    )  # fmt: skip
    return counting.pack(end)


def count(start: Pipeline) -> None:
    """Count the end of this start, and those of earlier starts that were killed before they could."""
    counting.count_uncounted(start.store, start.ledger, start.job.name, start.job.stage)
