"""What was used each day, as stacked bars: named jobs on top, all others as one part below; a line shows the usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from statistics import median

from markupsafe import Markup

from ..observe.figures import money
from ..observe.reader import StoreReader

_KEPT = 20.0  # seconds before the figures are read again
_BASE, _HIGH = 170.0, 150.0  # pixels: the bottom of the bars, and the height of the highest
_LINE = Markup(
    '<line class="grid-line" x1="0" x2="100%" y1="{0:.1f}" y2="{0:.1f}"/><text x="100%" dx="8" y="{1:.1f}">{2}</text>'
)
_USUAL = Markup('<line class="usual" x1="{:.2f}%" x2="{:.2f}%" y1="{:.1f}" y2="{:.1f}"/>')
_FLAG = Markup(
    '<line class="flag" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="{1:.1f}"/>'
    '<text class="flag-t" x="{0:.2f}%" dx="-6" y="10" text-anchor="end">{2}</text>'
)


def chart(reader: StoreReader, by: str, days: Sequence[str], named: Sequence[str], flag: tuple[str, str]) -> Markup:
    """`flag`: (a day, what begins there), or two empty texts."""
    used = reader.cached(("chart", by, days[-1], *named), _KEPT, lambda: _used(reader, by, days, named))
    sums = {day: sum(parts.values()) for day, parts in used.items()}
    step = _step(max(sums.values(), default=0.0))
    top = step * max(1.0, -(-max(sums.values(), default=0.0) // step))
    width = 100 / len(days)
    bars = Markup("").join(
        _bar(used[day], [*reversed(named), ""], len(named), index * width, width, top) for index, day in enumerate(days)
    )
    labels = Markup("").join(
        Markup('<text x="{:.2f}%" y="187" text-anchor="middle">{}</text>').format(
            index * width + width / 2, date.fromisoformat(days[index]).strftime("%-d %b")
        )
        for index in range(1, len(days), 7)
    )
    ticks = [step * number for number in range(1, round(top / step) + 1)]
    lines = Markup("").join(
        _LINE.format(_y(tick, top), _y(tick, top) + 4, f"${tick:g}" if tick >= 1 else money(tick)) for tick in ticks
    )
    marked = Markup("")
    if flag[0] in used:
        marked = _FLAG.format(days.index(flag[0]) * width, _BASE, flag[1])
    return Markup('<svg role="img" aria-label="Dollars used by day and {}, the last {} days">{}{}{}{}{}</svg>').format(
        by, len(days), lines, bars, _usual(sums, days, width, top), marked, labels
    )


def _used(reader: StoreReader, by: str, days: Sequence[str], named: Sequence[str]) -> dict[str, dict[str, float]]:
    """Dollars by day, then by name; all that are not `named` are summed under ""."""
    used: dict[str, dict[str, float]] = {day: {} for day in days}
    for day, name, usd in reader.ledger.history.usd_by("day", by, since=days[0], until=days[-1]):
        key = name if name in named else ""
        used[day][key] = used[day].get(key, 0.0) + usd
    return used


def _bar(parts: Mapping[str, float], names: Sequence[str], named: int, x: float, width: float, top: float) -> Markup:
    """One day's bar, from the bottom: the part of all others, then the named ones, the first of them on top."""
    bar, y = Markup(""), _BASE
    for place, name in enumerate([names[-1], *names[:-1]]):
        high = parts.get(name, 0.0) / top * _HIGH
        y -= high
        if high:
            kind = 4 if place == 0 else named - place + 1
            bar += Markup('<rect class="c{}" x="{:.2f}%" width="{:.2f}%" y="{:.1f}" height="{:.1f}"/>').format(
                kind, x + 0.35, width - 0.7, y, high
            )
    return bar


def _usual(sums: Mapping[str, float], days: Sequence[str], width: float, top: float) -> Markup:
    """A line at the median of the days on which something was used; nothing if there are too few such days."""
    amounts = [usd for usd in sums.values() if usd]
    if len(amounts) < 12:
        return Markup("")
    first = next(index for index, day in enumerate(days) if sums[day])
    y = _y(median(amounts), top)
    return _USUAL.format(first * width, 100.0, y, y)


def _y(usd: float, top: float) -> float:
    return _BASE - usd / top * _HIGH


def _step(most: float) -> float:
    """The distance between grid lines: a round amount, about a third of `most`."""
    power = 1e-6
    while True:
        for digit in (1, 2, 5):
            if most <= 3.5 * digit * power:
                return digit * power
        power *= 10
