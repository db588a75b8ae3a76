"""When did a series leave its usual level? Pure, and robust: each job is compared with its own past.

It works on logarithms, so that a doubling counts the same for a cent and for ten dollars. The usual is a median for
each weekday that has been seen often enough; the spread is that of the runs around these medians. One wild run is never
a level: a shift needs the median of three runs to leave the level, and two of them to agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import median

from ..core.value import replace, value

FEWEST = 12  # runs that are needed before anything is called usual
SETTLED = 30  # runs at a new level make it the usual one, without a person
_WINDOW = 120  # runs from which the usual is computed
_ENOUGH_RUNS = 4  # of a weekday; with fewer it has no median of its own
_FAR = 2.8  # spreads; a run farther from the level than this has left it
_WILD = 6.0  # spreads; a single run farther from the level than this is wild
_MIN_CHANGE = log(1.3)  # a smaller change is ignored
_MIN_SPREAD = 0.04  # even a constant series may move a little
_ALIKE = 2.5  # spreads by which two runs of one level may differ
_YOUNG = 8  # with only so many runs, the spread is doubled; with more, it is enlarged less
_MIN_SHARE = 0.01  # of the median amount; a smaller amount counts as this much, since 0 has no logarithm


@value(frozen=True, kw_only=True)
class Point:
    run: str
    at: float
    weekday: int  # 0: Monday
    amount: float


@value(frozen=True, kw_only=True)
class Shift:
    """A new level."""

    first: Point  # the first run at the new level
    last_usual: Point  # the last run at the usual level before it
    certain_at: Point  # the run that made the shift certain
    usual: float  # what a run used before the shift
    now: float  # what a run has used since
    over: Point | None = None  # the first run that was back at the usual level; None: no run was
    settled: bool = False  # the new level is the usual one now: after SETTLED runs, or accepted by a person

    @property
    def factor(self) -> float:
        return self.now / self.usual if self.usual else float("inf")


@value(frozen=True, kw_only=True)
class Outlier:
    """A single run far from the usual level; the runs after it were back at that level."""

    point: Point
    usual: float

    @property
    def factor(self) -> float:
        return self.point.amount / self.usual if self.usual else float("inf")


@value(frozen=True, kw_only=True)
class Levels:
    shifts: tuple[Shift, ...] = ()  # the oldest first
    outliers: tuple[Outlier, ...] = ()
    usual: float | None = None  # what a run uses on the newest run's weekday; None: too few runs

    @property
    def current(self) -> Shift | None:
        """The shift that still lasts; None: the series is at its usual level."""
        last = self.shifts[-1] if self.shifts else None
        return last if last and not last.over and not last.settled else None


def levels(points: Sequence[Point], accepted: Iterable[float] = ()) -> Levels:
    """The shifts and wild runs of a series. `accepted`: when a person accepted the level as the usual one."""
    return _Detector(points, sorted(accepted)).levels()


class _Usual:
    """The usual level and spread of the runs in a window."""

    def __init__(self, days: Sequence[int], logs: Sequence[float], window: Sequence[int]) -> None:
        self._days, self._logs = days, logs
        self._window = window[-_WINDOW:]
        self._levels: dict[int, tuple[float, ...]] = {}  # weekday → the levels that a run of it may have
        by_day: dict[int, list[float]] = {}
        for index in self._window:
            by_day.setdefault(days[index], []).append(logs[index])
        self._by_day = by_day
        spread = max(1.4826 * median(abs(self.deviation(index)) for index in self._window), _MIN_SPREAD)
        self.spread = spread * (1 + _YOUNG / len(self._window))

    def deviation(self, index: int) -> float:
        """How far a run is above (below, if negative) the usual level."""
        here, levels = self._logs[index], self._levels_of(self._days[index])
        return here - levels[0] if len(levels) == 1 else min([here - level for level in levels], key=abs)

    def _levels_of(self, day: int) -> tuple[float, ...]:
        """The levels that a run on this weekday may have, of which the nearest counts. A weekday with too few runs has
        several: its own, that of all weekends or all working days, and that of all days."""
        if day not in self._levels:
            same = self._by_day.get(day, [])
            if len(same) < _ENOUGH_RUNS:
                alike = [one for other, logs in self._by_day.items() if (other >= 5) == (day >= 5) for one in logs]
                every = [one for logs in self._by_day.values() for one in logs]
                self._levels[day] = tuple(median(logs) for logs in (same, alike, every) if logs)
            else:
                self._levels[day] = (median(same),)
        return self._levels[day]

    def has_left(self, deviation: float) -> bool:
        """Has a run with this deviation left the level?"""
        return abs(deviation) > self._limit

    @property
    def _limit(self) -> float:
        return max(_FAR * self.spread, _MIN_CHANGE)

    def new_level(self, deviations: Sequence[float]) -> float | None:
        """If three runs in a row have moved to a new level, returns how far it is from the usual one; else None. Either
        all three must have left the usual level; or two must have left it and agree, while the third leans their way or
        is wild on the other side. Two wild runs among usual ones are not a level."""
        middle = sorted(deviations)[1]
        side = 1 if middle > 0 else -1
        if middle * side <= self._limit:
            return None
        left = sorted(deviation for deviation in deviations if deviation * side > self._limit)
        if len(left) < 2:
            return None
        agree = len(left) == 3 or left[1] - left[0] <= max(_ALIKE * self.spread, _MIN_CHANGE)
        lean = all(deviation * side > self._limit / 2 or -deviation * side > self._limit for deviation in deviations)
        return middle if agree and lean else None


class _Detector:
    def __init__(self, points: Sequence[Point], accepted: list[float]) -> None:
        self._points, self._accepted = points, accepted
        middle = median(point.amount for point in points) if points else 0.0
        smallest = (middle or max((point.amount for point in points), default=0.0) or 1.0) * _MIN_SHARE
        self._logs = [log(max(point.amount, smallest)) for point in points]
        self._days = [point.weekday for point in points]
        self._at_level: list[int] = []  # indexes of the runs that make the usual level, and of those not judged yet
        self._since: list[int] = []  # if a shift lasts: indexes of the runs since it began
        self._before: _Usual | None = None  # the usual before that shift; None: no shift lasts
        self._cached: tuple[int, _Usual] | None = None  # (number of runs, the usual of these)
        self._shifts: list[Shift] = []
        self._outliers: list[Outlier] = []

    def levels(self) -> Levels:
        for index, point in enumerate(self._points):
            while self._accepted and self._accepted[0] < point.at:
                self._accept()
            if self._before:
                self._follow(index, self._before)
            else:
                self._watch(index)
        if self._accepted:
            self._accept()
        usual = None
        if len(self._at_level) >= FEWEST:
            last = len(self._points) - 1
            usual = exp(self._logs[last] - (self._before or self._usual(self._at_level)).deviation(last))
        return Levels(shifts=tuple(self._shifts), outliers=tuple(self._outliers), usual=usual)

    def _usual(self, indexes: Sequence[int]) -> _Usual:
        return _Usual(self._days, self._logs, indexes)

    def _watch(self, index: int) -> None:
        """While at the usual level: have the last three runs left it?"""
        self._at_level.append(index)
        if len(self._at_level) < FEWEST + 3:
            return
        last, usual = self._at_level[-3:], self._recently_usual()
        deviations = [usual.deviation(each) for each in last]
        moved = usual.new_level(deviations) is not None
        if moved:  # the cached usual may lack some runs: compare with that of all runs before these three
            usual = self._usual(self._at_level[:-3])
            deviations = [usual.deviation(each) for each in last]
            moved = usual.new_level(deviations) is not None
        if moved:
            self._begin(index, usual, median(deviations))
        elif abs(deviations[0]) > max(_WILD * usual.spread, 2 * _MIN_CHANGE) and not usual.has_left(deviations[1]):
            outlier = self._points[last[0]]
            self._outliers.append(Outlier(point=outlier, usual=exp(self._logs[last[0]] - deviations[0])))

    def _recently_usual(self) -> _Usual:
        """The usual before the last three runs. It is not recomputed for each run: one more hardly moves the median."""
        runs = len(self._at_level) - 3
        if not self._cached or not 0 <= runs - self._cached[0] <= runs // 20:
            self._cached = runs, self._usual(self._at_level[:-3])
        return self._cached[1]

    def _begin(self, index: int, usual: _Usual, middle: float) -> None:
        """Begin a shift with the first run that is nearer to the new level than to the old one. A run before the last
        three must also be close to the new level: otherwise it was wild."""
        last = self._at_level[-5:]
        deviations = [usual.deviation(each) for each in last]
        near = [abs(deviation - middle) < min(abs(deviation), _ALIKE * usual.spread) for deviation in deviations[:-3]]
        near += [abs(deviation - middle) < abs(deviation) for deviation in deviations[-3:]]
        first = near.index(True, -3)
        while first and near[first - 1]:
            first -= 1
        self._since = last[first:]
        del self._at_level[-len(self._since) :]
        self._before = self._usual(self._at_level)
        self._shifts.append(self._shift(self._before, self._points[index]))

    def _shift(self, usual: _Usual, certain_at: Point) -> Shift:
        first = self._since[0]
        old = self._logs[first] - usual.deviation(first)
        moved_by = median(usual.deviation(each) for each in self._since)
        before = next((each for each in reversed(self._at_level) if not usual.has_left(usual.deviation(each))), first)
        return Shift(
            first=self._points[first], last_usual=self._points[before], certain_at=certain_at, usual=exp(old),
            now=exp(old + moved_by),
        )  # fmt: skip

    def _follow(self, index: int, usual: _Usual) -> None:
        """While a shift lasts: is the series back, or has the new level become the usual one?"""
        self._since.append(index)
        last, half = self._since[-3:], log(self._shifts[-1].factor) / 2
        deviations = [usual.deviation(each) for each in last]
        if len(last) == 3 and median(deviations) / half < 1:  # nearer to the old level than to the new one
            back = next(each for each, deviation in zip(last, deviations, strict=True) if deviation / half < 1)
            self._at_level += [each for each in self._since if each >= back]
            self._end(over=self._points[back])
            return
        if len(self._since) <= 7:  # more runs show better where the new level is, and whether its first run is in it
            moved_by, first = median(usual.deviation(each) for each in self._since), usual.deviation(self._since[0])
            if len(self._since) > 3 and abs(first - moved_by) > abs(first):
                self._at_level.append(self._since.pop(0))
            self._shifts[-1] = self._shift(usual, self._shifts[-1].certain_at)
        if len(self._since) >= SETTLED:
            self._settle()

    def _accept(self) -> None:
        self._accepted.pop(0)
        if self._before:
            self._settle()

    def _settle(self) -> None:
        self._at_level = self._since
        self._end(settled=True)

    def _end(self, *, over: Point | None = None, settled: bool = False) -> None:
        self._shifts[-1] = replace(self._shifts[-1], over=over, settled=settled)
        self._before, self._since, self._cached = None, [], None
