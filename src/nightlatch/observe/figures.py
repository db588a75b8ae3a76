"""Figures as people read them, the same in sentences, tables, pages and messages: $2.84, 212,480, 1h 12m, 2.9 ×."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_ORDINALS = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
_BARS = "▁▂▃▄▅▆▇█"
_SPANS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def money(usd: float) -> str:
    """$2.84; below a cent with two significant digits: $0.0042."""
    if 0 < abs(usd) < 0.01:
        digits = float(f"{abs(usd):.2g}")
        return f"{'-' if usd < 0 else ''}${digits:.12f}".rstrip("0")
    return f"{'-' if usd < 0 else ''}${abs(usd):,.2f}"


def count(number: float) -> str:
    """212,480."""
    return f"{number:,.0f}"


def span(seconds: float) -> str:
    """42m, 1h 12m, 9s: the two largest units that matter."""
    if seconds < 0.9995:
        return f"{max(round(seconds * 1000), 0)}ms"
    left, parts = round(seconds), list[tuple[int, str]]()
    for size, unit in _SPANS:
        if left >= size or parts:
            parts.append((left // size, unit))
            left %= size
    return " ".join(f"{number}{unit}" for number, unit in parts[:2] if number)


def about(seconds: float) -> str:
    """37m, 2m 9s: without seconds from ten minutes on."""
    return span(seconds if seconds < 599.5 else round(seconds / 60) * 60)


def times(factor: float) -> str:
    """2.9 ×; without a fraction from ten on."""
    return f"{factor:.0f} ×" if factor >= 9.95 else f"{factor:.1f} ×"


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def number_word(number: int) -> str:
    """five; 13 and above in digits."""
    return _NUMBERS[number] if 0 <= number < len(_NUMBERS) else count(number)


def ordinal(number: int) -> str:
    """second; 13th and above in digits."""
    if 0 <= number < len(_ORDINALS):
        return _ORDINALS[number]
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value: the largest has the full height, 0 the lowest."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[round(max(value, 0) / top * (len(_BARS) - 1))] for value in values)
