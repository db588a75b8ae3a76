"""Text for a person's screen: plain columns, relative times, colour on a terminal only.

What a command has printed or reported is untrusted: its control characters never reach the terminal.
"""

from __future__ import annotations

import os
import sys

from ..core import duration
from ..core.printable import printable
from ..errors import UsageError
from ..store.held import time_of
from ..system import clock
from ..system.printing import ESCAPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RED, GREEN, YELLOW, MAGENTA, CYAN, BOLD, DIM = "31", "32", "33", "35", "36", "1", "2"

_PIPED_WIDTH = 160  # columns if the width is not known, as in a pipe
_NARROWEST = 8  # characters; an elastic column that would get fewer is omitted
_READABLE_WIDTH = 24  # characters; an elastic column gets at least this many if there is room
_GAP = "  "
local = time_of  # a moment in local time, as text


def ask(question: str, otherwise: str) -> bool:
    """Ask at the terminal; True if the answer is yes. `otherwise`: what to do if there is no terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"no terminal to ask on: {otherwise}")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def paint(text: str, *styles: str) -> str:
    """Coloured on a terminal, unless NO_COLOR is set (no-color.org) or the terminal is dumb."""
    if not styles or not _coloured():
        return text
    return f"{ESCAPE}[{';'.join(styles)}m{text}{ESCAPE}[0m"


def width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _PIPED_WIDTH
    except (OSError, ValueError):
        return _PIPED_WIDTH


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print a line for each fact that is not empty."""
    for word, text in facts:
        if text:
            print(f"  {word:<9} {printable(str(text))}")


def ago(wall: float) -> str:
    passed = clock.wall() - wall
    if passed < 1:
        return "now"
    return f"{_largest(passed)} ago"


def until(wall: float) -> str:
    """How far ahead the moment is, or how long ago it was."""
    left = round(wall - clock.wall())  # rounded: what was just set to 2d must not be shown as "in 1d"
    return f"in {_largest(left)}" if left >= 1 else ago(wall)


def moment(wall: float) -> str:
    """Local time, and how long ago or how far ahead."""
    return f"{local(wall)} ({until(wall)})"


def columns(rows: Sequence[Sequence[str]], elastic: Sequence[int], colours: Sequence[str] = ()) -> list[str]:
    """One line a row. Columns in `elastic` share the width that the others leave; the first of them is always there,
    however narrow. The last column, the command to type, is never cut. `colours` has a style for the first cell of
    each row."""
    if not rows:
        return []
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    kept = set(range(len(widths))) - set(elastic)
    spare = width() - sum(widths[index] + len(_GAP) for index in kept)
    for place, index in enumerate(elastic):
        available = spare - len(_GAP)
        others = sum(min(widths[later], _READABLE_WIDTH) + len(_GAP) for later in elastic[place + 1 :])
        room = min(widths[index], max(available - others, min(available, _READABLE_WIDTH), 0 if place else _NARROWEST))
        if room >= min(_NARROWEST, widths[index]) and room > 0:
            widths[index] = room
            spare -= room + len(_GAP)
            kept.add(index)
    lines = []
    for number, row in enumerate(rows):
        cells = [f"{cut(cell, widths[index]):<{widths[index]}}" for index, cell in enumerate(row) if index in kept]
        if number < len(colours):
            cells[0] = paint(cells[0], colours[number])
        lines.append(_GAP + _GAP.join(cells).rstrip())
    return lines


def _largest(seconds: float) -> str:
    """The time in its largest unit only, as in 3d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return duration.show(int(seconds))


def plain() -> bool:
    """True if stdout is not a terminal, or is one that shows only ASCII."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or not encoding.startswith("utf")


def _coloured() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def figures(rows: Sequence[Sequence[str]], left: Iterable[int] = (0,)) -> list[str]:
    """A table of figures, right-aligned except for the columns in `left`. The first column is cut to fit the screen."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    over = sum(widths) + len(_GAP) * len(widths) - width()
    if over > 0:
        widths[0] = max(widths[0] - over, _NARROWEST)
    left_aligned = set(left)
    return [
        _GAP
        + _GAP.join(
            f"{cut(cell, size):<{size}}" if index in left_aligned else f"{cell:>{size}}"
            for index, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
