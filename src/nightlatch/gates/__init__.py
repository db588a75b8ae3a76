"""May this write land? The token is verified at the write target itself, atomically with the write.

A gate keeps marks by the rule of `core.fence`. It knows nothing of runs; imports `core`, `system`,
`database` and `store`.
"""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Gate

# scheme of a gate's URL → (module, class); a class is made again from its URL by `from_url`
_KINDS: dict[str, tuple[str, str]] = {}


def open(url: str) -> Gate:
    """The gate that was registered as `url`."""
    kind = _KINDS.get(url.partition(":")[0])
    if kind is None:
        raise UsageError(f"{url!r} is no gate this program knows: upgrade it, or install the extra it needs")
    from importlib import import_module

    gate: Gate = getattr(import_module(f".{kind[0]}", __name__), kind[1]).from_url(url)
    return gate
