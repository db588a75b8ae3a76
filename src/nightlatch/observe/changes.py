"""Has a job left its usual level, since which run, and what changed just before it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from statistics import median

from ..core import statuses
from ..core.row import SKIPPED
from ..core.value import value
from ..ledger import kinds
from ..ledger.history import RunPoint
from . import rise
from .levels import Levels, Point, Shift, levels
from .reader import StoreReader

_FIGURES: dict[str, Callable[[RunPoint], float]] = {
    "usd": lambda point: point.amounts.usd,
    "tokens": lambda point: point.amounts.tokens,
    "seconds": lambda point: point.elapsed,
    "items": lambda point: float(point.items),
}
_OVERLAP = "overlap"
_MOST, _MOST_FOR_ONE = 400, 200  # newest runs examined: for all figures, and for one figure, as on a page
_NEARBY = 12  # runs before a shift, and after it, from which the two levels are computed
_DAY = 86400.0
_KEPT = 60.0  # seconds before changes are looked for again
# Facts of an attempt's start that may explain a change → their names for people.
_FACTS = {
    "command": "command", "definition": "definition", "bounds": "bounds", "program": "program",
    "program_size": "size of the program", "program_time": "time of the program",
    "program_version": "version of the program", "commit": "commit", "nightlatch": "Nightlatch", "host": "host",
}  # fmt: skip


@value(frozen=True, kw_only=True)
class Difference:
    """A fact in which a run differs from the last run at the usual level."""

    fact: str
    before: str
    after: str


@value(frozen=True, kw_only=True)
class LevelChange:
    what: str  # usd, tokens, seconds, items, skipped
    shift: Shift
    differences: tuple[Difference, ...]
    parts: dict[str, float]  # of a rise in cost: cause → its part, in USD; {} for other figures

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        shift = self.shift
        return {
            "version": 1,
            "what": self.what,
            "usual": shift.usual,
            "now": shift.now,
            "factor": shift.factor,
            "first_run": shift.first.run,
            "since": shift.first.at,
            "last_usual_run": shift.last_usual.run,
            "status": "over" if shift.over else "accepted" if shift.settled else "lasts",
            "differences": [one.__dict__ for one in self.differences],
            "rise": self.parts,
        }


@value(frozen=True, kw_only=True)
class JobChanges:
    job: str
    runs: int  # how many were examined
    levels: dict[str, Levels]  # by figure, without figures that are always 0
    changes: tuple[LevelChange, ...]  # the newest first

    @property
    def current(self) -> list[LevelChange]:
        """The changes that still last."""
        return [change for change in self.changes if change.shift == self.levels[change.what].current]


def job_changes(reader: StoreReader, job: str, only: str = "") -> JobChanges:
    """Changes among succeeded runs: a failed run uses less, which is not a new level. `only`: just this figure."""
    memo_key = ("changes", job, only, reader.ledger.journal.length(job))
    return reader.cached(memo_key, _KEPT, lambda: _job_changes(reader, job, only))


def _job_changes(reader: StoreReader, job: str, only: str) -> JobChanges:
    history = reader.ledger.history
    most = _MOST_FOR_ONE if only else _MOST
    points = [point for point in history.series(job, most=most) if point.status == statuses.SUCCEEDED]
    days = {point.run: date.fromisoformat(history.day(point.at)).weekday() for point in points}
    accepted: dict[str, list[float]] = {}
    for entry in reader.ledger.journal.rare_entries(kinds.USUAL, job=job):
        for what in entry.facts.get("what", "").split():
            accepted.setdefault(what, []).append(entry.at)
    found: dict[str, Levels] = {}
    changes: list[LevelChange] = []
    amounts = {what: list(map(figure, points)) for what, figure in _FIGURES.items() if only in ("", what)}
    if not only:
        amounts[SKIPPED] = _skipped(reader, job, points)
    for what, figures in amounts.items():
        if not any(figures):
            continue
        series = [
            Point(run=point.run, at=point.at, weekday=days[point.run], amount=amount)
            for point, amount in zip(points, figures, strict=True)
        ]
        found[what] = levels(series, accepted.get(what, ()))
        changes += [_explained(reader, what, shift, points) for shift in found[what].shifts]
    changes.sort(key=lambda change: -change.shift.first.at)
    return JobChanges(job=job, runs=len(points), levels=found, changes=tuple(changes))


def _skipped(reader: StoreReader, job: str, points: Sequence[RunPoint]) -> list[float]:
    """For each run, how many slots were skipped for overlap since the run before it."""
    since = points[0].at if points else 0.0
    records = [one for one in reader.ledger.slots.of(job, since) if one.outcome == SKIPPED and one.reason == _OVERLAP]
    counts, left = [], records
    for point in points:
        counts.append(float(sum(one.count for one in left if one.last <= point.at)))
        left = [one for one in left if one.last > point.at]
    return counts


def inputs_of(reader: StoreReader, run: str) -> dict[str, str]:
    """The inputs of a run's newest attempt: command, definition, files, models."""
    found: dict[str, str] = {}
    for entry in reader.ledger.journal.outline(run):
        if entry.kind in (kinds.OPENED, kinds.STARTED):
            found |= {name: entry.facts[fact] for fact, name in _FACTS.items() if entry.facts.get(fact)}
        elif entry.kind == kinds.INPUT:
            found[f"input {entry.facts.get('path', '')}"] = entry.facts.get("sha256", "")
        elif entry.kind == kinds.WORKSPACE and entry.facts.get("commit"):
            found["commit"] = entry.facts["commit"]
    if models := reader.ledger.history.models(run):
        found["model"] = ", ".join(models)
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> tuple[Difference, ...]:
    """The facts that differ. If a program's name or version differs, its size and time are left out."""
    names = [name for name in dict.fromkeys([*after, *before]) if before.get(name, "") != after.get(name, "")]
    if "version of the program" in names or "program" in names:
        names = [name for name in names if name not in ("size of the program", "time of the program")]
    return tuple(Difference(fact=name, before=before.get(name, ""), after=after.get(name, "")) for name in names)


def _explained(reader: StoreReader, what: str, shift: Shift, points: Sequence[RunPoint]) -> LevelChange:
    end = shift.over.at if shift.over else float("inf")
    before = [point for point in points if point.at < shift.first.at][-_NEARBY:]
    after = [point for point in points if shift.first.at <= point.at < end][:_NEARBY]
    return LevelChange(
        what=what,
        shift=shift,
        differences=differences(inputs_of(reader, shift.last_usual.run), inputs_of(reader, shift.first.run)),
        parts=rise.by_cause(_level(before), _level(after)) if what == "usd" else {},
    )


def _level(points: Sequence[RunPoint]) -> rise.Level:
    days = (points[-1].at - points[0].at) / _DAY
    return rise.Level(
        usd=median(point.amounts.usd for point in points),
        tokens=median(point.amounts.tokens for point in points),
        calls=median(point.amounts.calls for point in points),
        runs_a_day=(len(points) - 1) / days if days > 0 and len(points) >= _NEARBY else 0.0,
    )
