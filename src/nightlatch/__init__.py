"""Nightlatch: each slot once, within bounds, and no way for a stale copy to write.

    import nightlatch

    with nightlatch.lease("reports", wait="5m") as lease:
        build(token=lease.token)

Each name is loaded when it is first used, so `import nightlatch` itself is cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import gates
    from .core.effects import idempotency_header
    from .core.keys import key
    from .errors import (
        Busy,
        Error,
        InDoubt,
        LeaseLost,
        MapFailed,
        NotDone,
        OnlyPlanned,
        StaleToken,
        Stop,
        StoreUnreachable,
    )
    from .runtime.caller.decorator import job
    from .runtime.caller.supervised import run
    from .runtime.child.context import Run, current
    from .runtime.shared.leases.lease import Lease, lease
    from .runtime.shared.plan import Plan
    from .runtime.shared.verdict import Verdict
    from .store.url import connect

__version__ = "0.1.0"

_MODULES = {
    "Busy": "errors",
    "Error": "errors",
    "InDoubt": "errors",
    "Lease": "runtime.shared.leases.lease",
    "LeaseLost": "errors",
    "MapFailed": "errors",
    "NotDone": "errors",
    "OnlyPlanned": "errors",
    "Plan": "runtime.shared.plan",
    "Run": "runtime.child.context",
    "StaleToken": "errors",
    "Stop": "errors",
    "StoreUnreachable": "errors",
    "Verdict": "runtime.shared.verdict",
    "connect": "store.url",
    "current": "runtime.child.context",
    "idempotency_header": "core.effects",
    "job": "runtime.caller.decorator",
    "key": "core.keys",
    "lease": "runtime.shared.leases.lease",
    "run": "runtime.caller.supervised",
}

__all__ = [
    "Busy",
    "Error",
    "InDoubt",
    "Lease",
    "LeaseLost",
    "MapFailed",
    "NotDone",
    "OnlyPlanned",
    "Plan",
    "Run",
    "StaleToken",
    "Stop",
    "StoreUnreachable",
    "Verdict",
    "connect",
    "current",
    "gates",
    "idempotency_header",
    "job",
    "key",
    "lease",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES and name != "gates":  # such as a submodule: `from .. import exits` asks here first
        raise AttributeError(f"module 'nightlatch' has no attribute {name!r}")
    import importlib

    if name == "gates":
        return importlib.import_module(".gates", __name__)
    found = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
