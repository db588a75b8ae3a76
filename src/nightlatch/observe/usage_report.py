"""What runs have used, for each job, or for each job and day."""

from __future__ import annotations

from ..core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.records import Usage
    from .reader import StoreReader


@value(frozen=True, kw_only=True)
class UsageReport:
    """The oldest day first. Days are of the ledger's time zone."""

    by_day: bool
    rows: tuple[Usage, ...]

    def facts(self) -> list[dict[str, object]]:
        """As JSON has it, a row each."""
        return [
            {"version": 1, "job": row.job, **({"day": row.day} if self.by_day else {}), **row.by_unit()}
            for row in self.rows
        ]


def report(
    reader: StoreReader, *, job: str | None = None, since: float | None = None, by_day: bool = False
) -> UsageReport:
    return UsageReport(by_day=by_day, rows=tuple(reader.ledger.usage(job=job, since=since, by_day=by_day)))
