"""What was used, summed: for a cap, and for people."""

from __future__ import annotations

from ..errors import UsageError
from .amounts import SCALE, shown
from .model import usage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Usage
    from .tables import Tables

_SPENT = """
SELECT CAST(COALESCE(SUM({unit}), 0) AS BIGINT) FROM {{prefix}}usage
WHERE (:job = '' OR job = :job) AND at >= :since AND run <> :besides
"""
_BUCKET = 900_000  # ms; time zones differ by quarters of an hour
_USED = """
SELECT job, at / :bucket, CAST(SUM(usd) AS BIGINT), CAST(SUM(tokens) AS BIGINT), CAST(SUM(calls) AS BIGINT),
       CAST(SUM(units) AS BIGINT)
FROM {prefix}usage WHERE (:job = '' OR job = :job) AND at >= :since GROUP BY job, at / :bucket ORDER BY 2, 1
"""


def of(tables: Tables, job: str | None, unit: str, since: int, besides: str) -> float:
    if unit not in SCALE:
        raise UsageError(f"{unit!r} cannot be used up: name one of {', '.join(SCALE)}")
    rows = tables.read(_SPENT.format(unit=unit), job=job or "", since=since, besides=besides)
    return shown(unit, rows[0][0])


def usage(tables: Tables, job: str | None, since: int, *, by_day: bool) -> list[Usage]:
    import time

    totals: dict[tuple[str, str], list[int]] = {}
    for name, bucket, *counts in tables.read(_USED, job=job or "", since=since, bucket=_BUCKET):
        day = time.strftime("%Y-%m-%d", time.localtime(bucket * _BUCKET / 1000)) if by_day else ""
        total = totals.setdefault((day, name), [0] * len(counts))
        total[:] = map(sum, zip(total, counts, strict=True))
    return [usage_of(name, tuple(counts), day) for (day, name), counts in sorted(totals.items())]
