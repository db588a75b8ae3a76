"""What an effect returns in a dry-run: a placeholder for a result that does not exist, so it cannot be read."""

from __future__ import annotations

import os

from ...errors import OnlyPlanned
from ...system import light

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MARK = "nightlatch: planned"

_READING = (
    "bool str format bytes hash int float complex index fspath len iter next reversed contains getitem setitem delitem "
    "call eq ne lt le gt ge neg pos abs invert round enter exit add radd sub rsub mul rmul matmul rmatmul truediv "
    "rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow rpow and rand or ror xor rxor lshift rlshift rshift "
    "rrshift"
)


class Planned:
    """It may be passed on and returned. Any other use raises `OnlyPlanned`; only repr() is safe."""

    __slots__ = ("_effect",)

    def __init__(self, effect: str) -> None:
        self._effect = effect

    def __getattr__(self, name: str) -> NoReturn:
        raise OnlyPlanned(self._effect, self)

    def __repr__(self) -> str:
        return f"<Planned {self._effect}>"


def _refuse(self: Planned, *_: object) -> NoReturn:
    raise OnlyPlanned(self._effect, self)


for _name in _READING.split():
    setattr(Planned, f"__{_name}__", _refuse)


def holds(value: object) -> bool:
    """Is it a placeholder, or does it contain one?"""
    if isinstance(value, dict | list | tuple):
        return any(map(holds, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Planned)


def plain(value: object) -> dict[str, str]:
    """For the JSON of a step's result: a placeholder is passed on unread."""
    if isinstance(value, Planned):
        return {_MARK: value._effect}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _revived(found: dict[str, Any]) -> object:
    return Planned(found[_MARK]) if _MARK in found else found


# A result from its JSON. Only in a dry-run it may contain a placeholder.
def _loads_revived(text: str) -> Any:
    import json

    return json.loads(text, object_hook=_revived)


loads = _loads_revived if os.environ.get("NIGHTLATCH_DRY_RUN") else light.loads  # tree.DRY_RUN: slow to import
