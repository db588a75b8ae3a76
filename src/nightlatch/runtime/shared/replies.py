"""Replies to requests, and errors sent through the socket: the class, the message and the fields.

The class is looked up by its name in errors.py, so a new error needs no change here.
"""

from __future__ import annotations

from ... import errors
from ...errors import Error, Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Request = dict[str, Any]
    Answer = Callable[[Request], dict[str, Any]]

_HIDDEN = "-"  # in place of a grant: with the real one a command could act for its holder


class DeferredReply:
    """A reply that takes a while: a thread makes it, and the loop goes on."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self.make = make


def one_by_one(answer: Answer) -> Callable[[list[Request]], list[dict[str, Any] | DeferredReply]]:
    """Handle each request separately."""
    return lambda requests: [reply(answer, request) for request in requests]


def reply(answer: Answer, request: Request) -> dict[str, Any]:
    """The reply, or the refusal: whatever a command sends, its supervisor goes on."""
    try:
        return {"ok": True, **answer(request)}
    except (Stop, Exception) as error:  # noqa: BLE001
        return refusal(error)


def refusal(error: BaseException) -> dict[str, Any]:
    """The reply for an error. A lost lease is only reported here; the watch decides what it means for the run."""
    if isinstance(error, OSError):
        error = Error(f"not recorded: {error}")
    elif not isinstance(error, Error | Stop):
        error = errors.UsageError(f"not understood: {error}")
    facts = {name: _packed(found) for name, found in vars(error).items() if not name.startswith("_")}
    packed = {"ok": False, "error": str(error), "exit_code": error.exit_code, "class": errors.name_of(error)}
    return packed | ({"facts": facts} if facts else {})


def as_error(refused: dict[str, Any]) -> Error | Stop:
    """The error of a refusal: the same class, message, fields and exit code. A stop stays a stop, so that a broad
    `except Exception` in the work does not swallow it."""
    error = errors.recreate(
        str(refused.get("class")), str(refused.get("error", "refused")), refused.get("exit_code", Error.exit_code)
    )
    facts = refused.get("facts") or {}
    error.__dict__.update({name: _unpacked(found) for name, found in facts.items()})
    return error


def _packed(found: object) -> object:
    """The value as JSON can carry it; None for what cannot, or must not, be sent."""
    if found is None or isinstance(found, str | int | float):
        return found
    if isinstance(found, tuple):
        return list(map(_packed, found))
    name = type(found).__name__
    if name not in _values() or name == "KnownGrants":
        return None
    fields = {field: _packed(value) for field, value in vars(found).items()}
    return {"value": name, **fields} | ({"grant": _HIDDEN} if fields.get("grant") else {})


def _unpacked(found: Any) -> object:
    if isinstance(found, list):
        return tuple(map(_unpacked, found))
    if not isinstance(found, dict):
        return found
    fields = {field: _unpacked(value) for field, value in found.items() if field != "value"}
    return _values()[found["value"]](**fields)


def _values() -> dict[str, Any]:
    from ...core import model as core
    from ...core.units import Amounts
    from ...ledger import records as ledger

    kinds = (core.Record, core.Holder, core.Mark, core.KnownGrants, core.Begun, ledger.RunRow, Amounts)
    return {kind.__name__: kind for kind in kinds}
