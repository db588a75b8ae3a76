"""Load what a supervisor may need later: hours from now an upgrade may have replaced the package's files."""

from __future__ import annotations

import os
import sys

_FOLDERS = "nightlatch.runtime.", "nightlatch.store"  # their functions import modules where they need them


def warm_up() -> None:
    """Import every module of the folders in use. This takes a moment, while the command works."""
    try:
        import json  # noqa: F401 - for the socket

        from ....gates import git  # noqa: F401 - for a push
        from ....ledger import decisions, history, period_usage  # noqa: F401 - for budgets, and for runs in this run
        from ....system import spawn  # noqa: F401 - for the warden of the next try
        from ...shared import steps  # noqa: F401 - used from the first request on, or when the run ends
        from .. import afterwards, agents, effects, leases, publishing  # noqa: F401

        in_use = [name for name in sys.modules if name.startswith(_FOLDERS) and hasattr(sys.modules[name], "__path__")]
        for package in sorted(in_use):
            for file in os.listdir(sys.modules[package].__path__[0]):
                if file.endswith(".py") and file != "__init__.py":
                    __import__(f"{package}.{file.removesuffix('.py')}")
    except Exception as error:  # noqa: BLE001 - half a package may raise anything; what is imported still works
        print(f"nightlatch: the package was replaced as the run began ({error!r})", file=sys.stderr)
