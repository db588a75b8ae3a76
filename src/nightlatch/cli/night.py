"""The lines of the status screen: none is wider than the screen, and no reason is omitted. The last column is what to
type after `nightlatch`."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence

from ..core.printable import printable
from ..observe import night_rows as rows
from ..observe.night_rows import NightPart, NightRow
from . import screen

Paint = Callable[..., str]

WIDE = 100  # columns from which a reason fits into its row
_MARKS = {  # mark → (sign, its ASCII form, colour)
    rows.DOUBT: ("?", "?", screen.MAGENTA), rows.PERSON: ("!", "!", screen.YELLOW), rows.BROKEN: ("✗", "x", screen.RED),
    rows.WORKS: ("●", "*", screen.CYAN), rows.WELL: ("✓", "+", screen.GREEN), rows.WAITS: ("◇", "-", screen.DIM),
}  # fmt: skip
_JOB, _JOB_NARROW = 24, 16  # characters of a job's name, at most
_REASON_LINES = 3
_ASCII = str.maketrans("█░×…▁▂▃▄▅▆▇", "#.x._.,-=+*")


def lines(
    first: Sequence[str], parts: Sequence[NightPart], *, width: int, paint: Paint, plain: bool, now: float, more: str
) -> list[str]:
    """`first`: the verdict in short. `plain`: ASCII only. `more`: what to type to see the rows that are not shown."""
    all_rows = [row for part in parts for row in part.rows]
    sizes = (
        min(max((len(printable(row.job)) for row in all_rows), default=0), _JOB if width >= WIDE else _JOB_NARROW),
        max((len(row.word) for row in all_rows), default=0),
    )
    stamp = time.strftime("%a %d %b %H:%M", time.localtime(now))
    gap, opening = ("   ", [stamp]) if width >= WIDE else (" | " if plain else " · ", [])
    head = _fitted([*opening, *first], gap, width)
    found = [paint(head[0], screen.BOLD), *head[1:]]
    for part in parts:
        found += ["", paint(part.title, screen.BOLD)]
        for row in part.rows:
            shown = _row(row, sizes, width, paint, plain, now)
            found += [line.translate(_ASCII) for line in shown] if plain else shown
        if part.more:
            found.append(f"  {'...' if plain else '…'} {part.more}{'+' if part.capped else ''} more: {more}")
    return found


def _row(row: NightRow, sizes: tuple[int, int], width: int, paint: Paint, plain: bool, now: float) -> list[str]:
    sign, ascii_sign, colour = _MARKS[row.mark]
    reason, command = printable(row.reason), row.next.shell().removeprefix("nightlatch ")
    mark, word = ascii_sign if plain else sign, row.word
    clock = _clock(row.at, now)
    name = f"{screen.cut(printable(row.job), sizes[0]):<{sizes[0]}}"
    left = f"  {mark} {name}  {word:<{sizes[1]}}  {clock:<6}"
    coloured = left.replace(f"  {mark} ", f"  {paint(mark, colour)} ", 1)
    room = width - len(left) - len(command) - 4
    if width >= WIDE and room >= 20:
        return [f"{coloured}  {screen.cut(reason, room):<{room}}  {command}".rstrip()]
    fits = len(left) + 2 + len(command) <= width
    found = [f"{coloured}{' ' * (width - len(left) - len(command))}{command}" if fits else coloured.rstrip()]
    if reason:
        wrapped = textwrap.wrap(reason, max(width - 6, 20), break_long_words=True, break_on_hyphens=False)
        if len(wrapped) > _REASON_LINES:
            end = "..." if plain else "…"
            last = wrapped[_REASON_LINES - 1][: max(width - 6, 20) - len(end)]
            wrapped = [*wrapped[: _REASON_LINES - 1], last + end]
        found += [f"      {line}" for line in wrapped]
    return found if fits else [*found, f"      {command}"]


def _clock(at: float | None, now: float) -> str:
    """As in 02:51; the date if `at` is a day or more away."""
    if at is None:
        return ""
    return time.strftime("%H:%M" if abs(now - at) < 86400 else "%d %b", time.localtime(at))


def _fitted(parts: Sequence[str], gap: str, width: int) -> list[str]:
    """The parts, joined by `gap`, in as few lines as possible."""
    found = [""]
    for part in parts:
        longer = f"{found[-1]}{gap}{part}" if found[-1] else part
        if len(longer) <= width or not found[-1]:
            found[-1] = longer
        else:
            found.append(part)
    return [screen.cut(line, width) for line in found]
