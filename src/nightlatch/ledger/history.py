"""Queries over many runs. Each is answered from an index or from the tally, so that a million runs take no longer than
ten thousand."""

from __future__ import annotations

from ..core import statuses
from ..core.units import UNITS, Amounts
from ..core.value import value
from . import tally
from .records import RUN, RunRow
from .typed_table import amounts, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from .tables import Tables
    from .tally import Tally


def _newest_runs(columns: str, parts: Iterable[str]) -> str:
    """SQL for the `:most` newest runs that one of these WHERE clauses selects; for each clause an index has the runs
    in order. `columns` has id and changed."""
    some = [
        f"SELECT * FROM (SELECT {columns} FROM {{prefix}}run{part} ORDER BY changed DESC, id LIMIT :most) AS part"
        for part in parts
    ]
    return f"{' UNION ALL '.join(some)} ORDER BY changed DESC, id LIMIT :most"


def _of_any_status(*conditions: str) -> list[str]:
    """WHERE clauses for all runs, one for each status: no index has all runs in the order of their changes, since every
    start and end of a run would have to write to it."""
    return [where((), f"status = '{status}'", *conditions) for status in statuses.ALL]


_UNITS = ", ".join(UNITS)
_SERIES = f"""
SELECT id, changed, status, elapsed, done, {_UNITS} FROM {{prefix}}run
WHERE job = :job AND parent = '' ORDER BY changed DESC LIMIT :most
"""
_AMOUNTS = f"SELECT {_UNITS} FROM {{prefix}}run WHERE job = :job AND parent = '' ORDER BY changed DESC LIMIT :most"
_USD = UNITS["usd"].scale
_NEWEST_OUTCOMES = """
SELECT changed, status, elapsed FROM {prefix}run WHERE job = :job AND parent = '' ORDER BY changed DESC LIMIT :most
"""
_MODELS = "SELECT DISTINCT model FROM {prefix}usage WHERE run = :run AND model <> '' ORDER BY model"
_CALLS = f"""
SELECT model, agent, kind, {", ".join(f"CAST(SUM({unit}) AS BIGINT)" for unit in UNITS)} FROM {{prefix}}usage
WHERE run = :run AND kind <> '' GROUP BY model, agent, kind ORDER BY model, agent, kind
"""
_REPORTS = f"""
SELECT {{{{columns}}}}, {", ".join(f"CAST(SUM({unit}) AS BIGINT)" for unit in UNITS)} FROM {{prefix}}usage
WHERE at >= :since AND at < :until{{{{which}}}} GROUP BY {{{{columns}}}}
"""
_COUNTED = """
SELECT COUNT(*) FROM (SELECT id FROM {prefix}run WHERE status = :status AND changed >= :since LIMIT :most) AS found
"""
_USED_SINCE = f"""
SELECT CAST(COALESCE(SUM(usd), 0) AS BIGINT), COUNT(*) FROM (
  {_newest_runs("usd, changed, id", _of_any_status("changed >= :since"))}) AS found
"""
_SLOTS = "SELECT outcome, SUM(count) FROM {prefix}slot_record WHERE last >= :since GROUP BY outcome"
_OUTCOMES = "SELECT job, outcome, SUM(count) FROM {prefix}slot_record GROUP BY job, outcome ORDER BY job, outcome"
_LAST_SUCCESS = """
SELECT substr(name, 5), (SELECT MAX(changed) FROM {prefix}run AS run
  WHERE run.job = substr(chain.name, 5) AND run.parent = '' AND run.status = 'succeeded')
FROM {prefix}chain AS chain WHERE name LIKE 'job:%'
"""
_MOST = 10_000  # rows that are counted: beyond this the exact number does not matter
_BEFORE = "SELECT id FROM {prefix}run WHERE id < :run ORDER BY id DESC LIMIT 1"
_AFTER = "SELECT id FROM {prefix}run WHERE id > :run ORDER BY id LIMIT 1"
_JOBS = "SELECT name FROM {prefix}chain ORDER BY name"


@value(frozen=True, kw_only=True)
class RunPoint:
    """A run in its job's series: when it changed, how it ended, and its figures."""

    run: str
    at: float
    status: str
    elapsed: float
    items: int
    amounts: Amounts


class History:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def zone(self) -> str:
        """The ledger's time zone, by its name."""
        return str(self._tables.database.facts()["ledger.zone"])

    def day(self, at: float) -> str:
        """The day of a moment in the ledger's time zone, as in 2026-07-31."""
        return self._tables.day(round(at * 1000))

    def runs(
        self,
        job: str | None = None,
        status: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 1000,
    ) -> Iterator[RunRow]:
        """Runs whose status changed at or after `since`, and before `until`, the newest change first."""
        which = {name: text for name, text in (("job", job), ("status", status)) if text}
        times = {"since": _ms(since)} | ({} if until is None else {"until": _ms(until)})
        within = ["changed >= :since", *([] if until is None else ["changed < :until"])]
        by = list(which)
        if job and status and statuses.is_terminal(status):
            # Many runs have this status, and few of them are the job's: SQLite, which keeps no statistics, must not use
            # the index of statuses.
            by, within = ["job"], [*within, f"{'' if self._tables.database.many_machines else '+'}status = :status"]
        if job:  # its newest runs and its newest nested runs: an index has each of them in order
            parts = [where(by, *within, f"parent {sign} ''") for sign in ("=", "<>")]
        elif status:
            parts = [where(by, *within)]
        else:  # of each status more runs are read than are returned, but only their ids
            ids = _newest_runs("id, changed", _of_any_status(*within))
            parts = [where((), f"id IN (SELECT id FROM ({ids}) AS newest)")]
        return map(RUN.read, self._tables.read(_newest_runs(RUN.names, parts), **which, **times, most=limit))

    def nested_in(self, run: RunRow) -> list[RunRow]:
        """The nested runs that this attempt has begun."""
        within = ("changed >= :since", "grant_id = :grant", "id <> :id")
        parts = [where(["job"], f"parent {sign} ''", *within) for sign in ("=", "<>")]  # as in `runs`
        values = {"job": run.job, "since": _ms(run.started), "grant": run.grant, "id": run.id}
        return [one for part in parts for one in self._tables.select(RUN, part, **values)]

    def tallies(
        self, by: Sequence[str], *, since: str = "", until: str = tally.NO_END, running: bool = True
    ) -> list[Tally]:
        """Sums by these columns, of days from `since` to `until`; `running`: also of attempts that have not ended."""
        return tally.report(self._tables, by, since=since, until=until, running=running)

    def sums(
        self,
        by: Sequence[str],
        columns: Sequence[str],
        *,
        job: str | None = None,
        since: str = "",
        until: str = tally.NO_END,
    ) -> list[tuple[Any, ...]]:
        """`tallies` as plain rows, of these columns only: see tally.sums."""
        return tally.sums(self._tables, by, columns, job=job, since=since, until=until)

    def usd_by(self, *by: str, since: str, until: str = tally.NO_END) -> list[tuple[Any, ...]]:
        """(the columns `by`, usd) of each group that used any usd; in no particular order."""
        return [(*row[:-1], row[-1] / _USD) for row in self.sums(by, ("usd",), since=since, until=until)]

    def amounts_of_runs(self, jobs: Sequence[str], *, most: int) -> list[list[tuple[int, ...]]]:
        """For each job, what each of its newest runs has used, the newest first, in whole parts of each unit."""
        return self._tables.read_for_each(jobs, _AMOUNTS, most=most)

    def series(self, job: str, *, most: int = 400) -> list[RunPoint]:
        """A job's newest runs, the oldest of them first."""
        rows = self._tables.read(_SERIES, job=job, most=most)
        return [
            RunPoint(run=run, at=at / 1000, status=status, elapsed=elapsed / 1000, items=done,
                     amounts=amounts(dict(zip(UNITS, parts, strict=True))))
            for run, at, status, elapsed, done, *parts in reversed(rows)
        ]  # fmt: skip

    def newest_outcomes(self, job: str, most: int = 60) -> list[tuple[float, str, float]]:
        """(when, status, seconds) of a job's newest runs, the oldest of them first: from the index alone."""
        return self.newest_outcomes_of([job], most)[job]

    def newest_outcomes_of(self, jobs: Sequence[str], most: int = 60) -> dict[str, list[tuple[float, str, float]]]:
        """`newest_outcomes` of each of these jobs."""
        found = self._tables.read_for_each(jobs, _NEWEST_OUTCOMES, most=most)
        return {
            job: [(at / 1000, status, elapsed / 1000) for at, status, elapsed in reversed(rows)]
            for job, rows in zip(jobs, found, strict=True)
        }

    def count(self, status: str, since: float) -> int:
        """How many runs with this status changed since then, counted up to 10,000."""
        return int(self._tables.read(_COUNTED, status=status, since=round(since * 1000), most=_MOST)[0][0])

    def used_since(self, since: float) -> tuple[float, int]:
        """(usd, runs) of runs that changed since then, with all their attempts; of at most 10,000 runs."""
        ((usd, runs),) = self._tables.read(_USED_SINCE, since=round(since * 1000), most=_MOST)
        return usd / 10**9, int(runs)

    def slots_since(self, since: float) -> tuple[int, int]:
        """(slots that were due, those of them that ran) since then; (0, 0) without schedules."""
        found = {outcome: int(count) for outcome, count in self._tables.read(_SLOTS, since=round(since * 1000))}
        return sum(found.values()), found.get("ran", 0)

    def slot_outcomes(self) -> list[tuple[str, str, int]]:
        """(job, outcome, how many slots)."""
        return [(job, outcome, int(count)) for job, outcome, count in self._tables.read(_OUTCOMES)]

    def last_successes(self) -> list[tuple[str, float]]:
        """(job, when it last succeeded), as far as runs are kept."""
        return [(job, at / 1000) for job, at in self._tables.read(_LAST_SUCCESS) if at is not None]

    def models(self, run: str) -> list[str]:
        return [model for (model,) in self._tables.read(_MODELS, run=run)]

    def reports(self, by: Sequence[str], since: float, until: float, job: str | None = None) -> list[tuple[Any, ...]]:
        """What was used by step (or item), subagent, model, kind of token, job or tag, in whole parts of each unit;
        only as far back as reports are kept."""
        which, values = (" AND job = :job", {"job": job}) if job else ("", {})
        columns = ", ".join("item" if name == "step" else name for name in by)
        sql = _REPORTS.replace("{{which}}", which).replace("{{columns}}", columns)
        return self._tables.read(sql, **values, since=round(since * 1000), until=round(until * 1000))

    def short(self, run: str, least: int = 4) -> str:
        """The shortest beginning of a run's id, of `least` characters or more, that no other id has."""
        neighbours = [other for sql in (_BEFORE, _AFTER) for (other,) in self._tables.read(sql, run=run)]
        for length in range(least, len(run)):
            if not any(other.startswith(run[:length]) for other in neighbours):
                return run[:length]
        return run

    def calls_of(self, run: str) -> list[tuple[str, str, str, Amounts]]:
        """What a run used, by model, subagent and kind of token, from the reports that name a kind."""
        rows = self._tables.read(_CALLS, run=run)
        return [
            (model, agent, kind, amounts(dict(zip(UNITS, rest, strict=True)))) for model, agent, kind, *rest in rows
        ]

    def jobs(self) -> list[str]:
        """Every job that has ever had a run."""
        return [name.removeprefix("job:") for (name,) in self._tables.read(_JOBS) if name.startswith("job:")]


def _ms(since: float | None) -> int:
    return round((since or 0) * 1000)
