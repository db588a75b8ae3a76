"""Nightlatch: each slot once, within bounds, and no way for a stale copy to write.

    import nightlatch

    with nightlatch.lease("reports", wait="5m") as lease:
        build(token=lease.token)

Names are loaded when they are first used, so importing this costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import gates
    from .core.effects import idempotency_header
    from .core.keys import key
    from .errors import Busy, Error, LeaseLost, StaleToken, Stop, StoreUnreachable
    from .runtime.lease import Lease, lease
    from .store.url import connect

__version__ = "0.1.0"

_WHERE = {
    "Busy": "errors",
    "Error": "errors",
    "Lease": "runtime.lease",
    "LeaseLost": "errors",
    "StaleToken": "errors",
    "Stop": "errors",
    "StoreUnreachable": "errors",
    "connect": "store.url",
    "idempotency_header": "core.effects",
    "key": "core.keys",
    "lease": "runtime.lease",
}

__all__ = [
    "Busy",
    "Error",
    "Lease",
    "LeaseLost",
    "StaleToken",
    "Stop",
    "StoreUnreachable",
    "connect",
    "gates",
    "idempotency_header",
    "key",
    "lease",
]


def __getattr__(name: str) -> object:
    import importlib

    if name == "gates":
        return importlib.import_module(".gates", __name__)
    if name not in _WHERE:
        raise AttributeError(f"module 'nightlatch' has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
