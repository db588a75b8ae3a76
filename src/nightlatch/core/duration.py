"""Durations as people write them: "90s", "10m", "1h30m", "250ms", "7d"."""

from __future__ import annotations

from ..errors import UsageError
from . import checks

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NAMES = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d", "week": "w"}
_LONGEST = 1e10  # seconds: within the range of every clock and database used here
_HINT = 'write it with units, as in "90s", "10m" or "1h30m"'


def parse(text: str, *, what: str = "duration") -> float:
    """Seconds in `text`. A bare number is refused: 90 could be seconds or minutes."""
    if not isinstance(text, str):
        raise UsageError(f'{what} {checks.shown(text)} must be a string with a unit, such as "90s" or "1h30m"')
    rest = text.strip().lower()
    total, last = 0.0, float("inf")
    if not rest:
        raise UsageError(f"{what} is empty: {_HINT}")
    if short := _shortened(rest):
        raise UsageError(f"{what} {text!r} is not understood: write {short!r}")
    if len(rest.split()) > 1:
        raise UsageError(f"{what} {text!r} has a space in it: {_HINT}")
    while rest:
        number, unit, rest = _split(rest)
        if number and not unit and not rest:
            raise UsageError(f"{what} {text!r} is ambiguous without a unit: {_HINT}")
        scale = _UNITS.get(unit)
        if scale is None or number.count(".") > 1 or not number.strip("."):
            raise UsageError(f"{what} {text!r} is not understood: {_HINT}")
        if scale >= last:
            raise UsageError(f"{what} {text!r} names its units out of order or twice: {_HINT}")
        total, last = total + float(number) * scale, scale
    if total > _LONGEST:
        raise UsageError(f"{what} {text!r} is longer than three centuries: write a shorter time")
    return total


def _split(text: str) -> tuple[str, str, str]:
    """(number, unit, rest): the number and the unit at the start of `text`, and what follows them."""
    letters = text.lstrip("0123456789.")
    rest = letters.lstrip("abcdefghijklmnopqrstuvwxyzµ")
    return text[: len(text) - len(letters)], letters[: len(letters) - len(rest)], rest


def _shortened(text: str) -> str:
    """The short form of "1 hour", "90 min" or "1 h 30 m"; "" if there is none, or `text` already is the short form."""
    short, words = "", text.replace(",", " ").replace(" and ", " ").split()
    joined = "".join(words)
    while joined:
        number, name, joined = _split(joined)
        unit = name if name in _UNITS else _NAMES.get(name.removesuffix("s"), "")
        if not number or not unit:
            return ""
        short += number + unit
    return short if short != text else ""


def show(seconds: float) -> str:
    """A duration for people, in its two largest units: 1h30m."""
    if seconds < 0:
        return "-" + show(-seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit in ("d", "h", "m", "s"):
        size = int(_UNITS[unit])
        if whole >= size or parts:
            parts.append((whole // size, unit))
            whole %= size
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count) or "0s"
