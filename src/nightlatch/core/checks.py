"""What a caller gave, checked where it is given: a wrong type would end deep inside, in words that help nobody."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .protocols import Gate

_LONGEST = 60


def shown(given: object) -> str:
    """In one short line, whatever it is."""
    try:
        said = repr(given)
    except Exception:  # noqa: BLE001 - its own, or a broken one: its type is named at least
        said = object.__repr__(given)
    line = said.partition("\n")[0][:_LONGEST]
    return line if line == said else f"{line}…"


def text(given: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(given, str):
        raise UsageError(f"{what} is {shown(given)}: give a text, not a value of the type {type(given).__name__}")
    if not (given or empty):
        raise UsageError(f"{what} is empty: give it a value, or leave it away")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is {shown(given)}, which holds half a character (a lone surrogate)") from None
    return given


def path(given: object, what: str) -> str:
    from os import PathLike, fspath

    found = fspath(given) if isinstance(given, str | PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise UsageError(f"{what} is {shown(given)}: give a path, as a text or a pathlib.Path")
    return found


def function(given: object, what: str) -> None:
    if not callable(given):
        raise UsageError(f"{what} is {shown(given)}: give a function, not what it returns")


def whole(given: object, what: str, *, least: int = 0) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise UsageError(f"{what} is {shown(given)}: write a whole number, {least} or more")
    return given


def number(given: object, what: str) -> None:
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given < 1e15:
        raise UsageError(f"{what} is {shown(given)}: write a number, 0 or more")


def gate(given: object) -> None:
    if not callable(getattr(given, "seal", None)):
        raise UsageError(f"{shown(given)} is no gate: make one, as in nightlatch.gates.File('out.html')")


def gates(given: Iterable[Gate]) -> tuple[Gate, ...]:
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise UsageError(f"gates is {shown(given)}: give a list of gates, as in [nightlatch.gates.File('out.html')]")
    found = tuple(given)
    for one in found:
        gate(one)
    return found


def budget(given: str | Mapping[str, float] | None) -> None:
    from collections.abc import Mapping

    if not isinstance(given, str | Mapping | None):
        raise UsageError(f'budget is {shown(given)}: write it as in {{"usd": 2, "usd/day": 10}}')
