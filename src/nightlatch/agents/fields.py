"""The vendor's own fields of an ask, for the request to it; and the API key."""

from __future__ import annotations

import os

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def only(fields: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is set; "" if none is."""
    return next((str(fields[name]) for name in names if fields.get(name)), "")


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: fact for name, fact in fields.items() if name not in names}


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the fields in it; tables are merged, so that a field beside our cap does not remove the cap."""
    made = dict(body)
    for name, fact in fields.items():
        own = made.get(name)
        made[name] = merged(own, fact) if isinstance(own, dict) and isinstance(fact, dict) else fact
    return made


def api_key(*names: str, base: str) -> str:
    """The first of these variables that is set; required unless the variable `base` names another server."""
    found = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if not found and not os.environ.get(base):
        raise UsageError(f"{names[0]} is not set: export your API key in it")
    return found
