"""When to stop a batch early: most items fail in the same way, or too many fail."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_WINDOW = 10  # items
_ALIKE = 8  # of these items must have failed in the same way for the breaker to trip


class Breaker:
    """Trips when most of the last items failed in the same way: a wrong password must not fail two hundred items."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}  # item → failure, the newest last

    def add(self, item: str, failure: str) -> None:
        """Record how an item ended; "" if it succeeded. All its tries together count as one item."""
        self._last.pop(item, None)
        self._last[item] = failure
        if len(self._last) > _WINDOW:
            del self._last[next(iter(self._last))]

    @property
    def tripped(self) -> str:
        """The failure that most of the last items share; "" if there is none."""
        if len(self._last) < _WINDOW:
            return ""
        last = list(self._last.values())
        return next((f for f in last if f and last.count(f) >= _ALIKE), "")


def failure_shape(exit_code: int | None, stderr: Iterable[str]) -> str:
    """What failures of one kind have in common: exit code and last line of stderr, with every digit replaced by #."""
    last = next((line.strip() for line in reversed(list(stderr)) if line.strip()), "")
    shape = "".join("#" if letter.isdigit() else letter for letter in last[:200])
    return shape if exit_code is None else f"exit code {exit_code}" + (f": {shape}" if shape else "")


class Limit:
    """How many failures are allowed: `5`, or `5%` of the items."""

    def __init__(self, text: str, what: str = "--max-failures") -> None:
        number, percent, rest = text.strip().partition("%")
        if rest or not number.replace(".", "", 1).isdecimal() or (not percent and "." in number):
            raise UsageError(f"{what} {text!r}: write a number, or a share of the items as in 5%")
        self._most, self._share = float(number), bool(percent)

    def passed(self, failed: int, of: int) -> bool:  # is the limit exceeded?
        return failed > (self._most / 100 * of if self._share else self._most)
