"""Checks of a caller's arguments, made at the entry: deeper inside, a wrong type fails with a useless message."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .protocols import Gate

_LONGEST = 60


def shown(value: object) -> str:
    """Any value, in one short line."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the value's `__repr__` failed: show at least its type
        text = object.__repr__(value)
    line = text.partition("\n")[0][:_LONGEST]
    return line if line == text else f"{line}…"


def text(value: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} is {shown(value)}: pass a string, not a {type(value).__name__}")
    if not (value or empty):
        raise UsageError(f"{what} is empty: give it a value, or omit it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is {shown(value)}, which holds half a character (a lone surrogate)") from None
    return value


def path(value: object, what: str) -> str:
    from os import PathLike, fspath

    found = fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise UsageError(f"{what} is {shown(value)}: pass a path, as a string or a pathlib.Path")
    return found


def function(value: object, what: str) -> None:
    if not callable(value):
        raise UsageError(f"{what} is {shown(value)}: pass a function, not what it returns")


def whole(value: object, what: str, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{what} is {shown(value)}: write a whole number, {least} or more")
    return value


def number(value: object, what: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise UsageError(f"{what} is {shown(value)}: write a number, 0 or more")


def gate(value: object) -> None:
    if not callable(getattr(value, "seal", None)):
        raise UsageError(f"{shown(value)} is not a gate: make one, as in nightlatch.gates.File('out.html')")


def gates(value: Iterable[Gate]) -> tuple[Gate, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise UsageError(f"gates is {shown(value)}: pass a list of gates, as in [nightlatch.gates.File('out.html')]")
    found = tuple(value)
    for one in found:
        gate(one)
    return found
