"""What a job has used in the current day or month of the ledger's zone: what its caps are compared with."""

from __future__ import annotations

from ..core.units import UNITS
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .records import RunRow
    from .tables import Tables

_SINCE = "SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM {{prefix}}tally WHERE job = :job AND day >= :day"
# An attempt whose holder died is still called running: what it used counts, although nobody has ended it yet.
_RUNNING = """
SELECT CAST(COALESCE(SUM(used.{unit}), 0) AS BIGINT) FROM {{prefix}}run AS run
JOIN {{prefix}}usage AS used ON used.run = run.id AND used.attempt = run.attempt AND used.at >= :since
WHERE run.status = 'running' AND run.job = :job AND run.id <> :besides
"""
_OWN = """
SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM {{prefix}}usage
WHERE run = :run AND attempt = :attempt AND at >= :since
"""


class PeriodUsage:
    """Made by `Ledger.period_usage`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def periods(self) -> dict[str, str]:
        """The names of the current day and month."""
        day, _ = self._tables.days.beginning("day")
        return {"day": day, "month": day[:7]}

    def of_job(self, job: str, unit: str, period: str, besides: RunRow | None = None) -> float:
        """What a job has used of a unit in the current day or month, without the newest attempt of `besides`."""
        if unit not in UNITS:
            raise UsageError(f"there is no unit {unit!r}: use one of {', '.join(UNITS)}")
        day, since = self._tables.days.beginning(period)
        ((ended,),) = self._tables.read(_SINCE.format(unit=unit), job=job, day=day)
        other = besides.id if besides else ""
        ((running,),) = self._tables.read(_RUNNING.format(unit=unit), job=job, since=since, besides=other)
        return _amount(unit, ended + running)

    def of_attempt(self, run: RunRow, unit: str, period: str) -> float | None:
        """What the newest attempt of a run has used in the current period; None: all of it, as it began within it."""
        _, since = self._tables.days.beginning(period)
        if run.started is not None and run.started * 1000 >= since:
            return None
        ((own,),) = self._tables.read(_OWN.format(unit=unit), run=run.id, attempt=run.attempt, since=since)
        return _amount(unit, own)


def _amount(unit: str, parts: int) -> float:
    scale = UNITS[unit].scale
    return parts / scale if scale > 1 else parts
