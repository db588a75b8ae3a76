"""Each verb of the socket is a method of its handler: `do_effect_probed` answers `{"do": "effect-probed"}`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ONE, MANY = "do_", "many_"  # prefixes of methods; MANY: for requests that are recorded together


def find(handler: object, verb: object, prefix: str = ONE) -> Any:
    """The handler's method for a verb; None if it has none."""
    is_verb = isinstance(verb, str) and "_" not in verb
    return getattr(handler, f"{prefix}{str(verb).replace('-', '_')}", None) if is_verb else None


def names(*handlers: object) -> list[str]:
    """All verbs of these handlers, in the order of their definition."""
    methods = (method for handler in handlers for method in vars(type(handler)))
    found = (method.partition("_")[2].replace("_", "-") for method in methods if method.startswith((ONE, MANY)))
    return list(dict.fromkeys(found))


def unknown(verb: object, *handlers: object) -> ValueError:
    return ValueError(f"`do` is {verb!r}; use one of {', '.join(names(*handlers))}")
