"""What an effect returns in a dry-run: a placeholder for a result that does not exist, so it cannot be read."""

from __future__ import annotations

import os

from ...core import json_text
from ...errors import OnlyPlanned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FIELD = "nightlatch: planned"  # the one field of a placeholder in JSON

_READING = (  # special methods that read a value
    "bool str format bytes hash int float complex index fspath len iter next reversed contains getitem setitem delitem "
    "call eq ne lt le gt ge neg pos abs invert round enter exit add radd sub rsub mul rmul matmul rmatmul truediv "
    "rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow rpow and rand or ror xor rxor lshift rlshift rshift "
    "rrshift"
)


class Planned:
    """It may be passed on, returned, and shown by repr(). Any other use raises `OnlyPlanned`."""

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


def contains_planned(value: object) -> bool:
    """Is the value a placeholder, or does it contain one?"""
    if isinstance(value, dict | list | tuple):
        return any(map(contains_planned, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Planned)


def encode_planned(value: object) -> dict[str, str]:
    """What JSON writes for a placeholder in a step's result, without reading it."""
    if isinstance(value, Planned):
        return {_FIELD: value._effect}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _revived(found: dict[str, Any]) -> object:
    return Planned(found[_FIELD]) if _FIELD in found else found


# A dry-run reads results from JSON with this, because they can contain placeholders there.
def _loads_revived(text: str) -> Any:
    import json

    return json.loads(text, object_hook=_revived)


loads = _loads_revived if os.environ.get("NIGHTLATCH_DRY_RUN") else json_text.loads  # tree.DRY_RUN is slow to import
