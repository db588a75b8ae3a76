"""The vendor's own fields, as they go into its requests; and the API key."""

from __future__ import annotations

import os

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def first_set(fields: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is set; "" if none is."""
    return next((str(fields[name]) for name in names if fields.get(name)), "")


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: setting for name, setting in fields.items() if name not in names}


def merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the fields in it. Tables are merged, so that a field in the same table does not remove our cap."""
    result = dict(body)
    for name, setting in fields.items():
        ours = result.get(name)
        result[name] = merged(ours, setting) if isinstance(ours, dict) and isinstance(setting, dict) else setting
    return result


def api_key(*names: str, base: str) -> str:
    """The value of the first variable that is set; required unless the variable `base` names another server."""
    found = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if not found and not os.environ.get(base):
        raise UsageError(f"{names[0]} is not set: export your API key in it")
    return found
