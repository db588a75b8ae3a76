"""Conformance suites: what every store, gate and adapter of agents has to show before anything may rely on it.

    from nightlatch.testing import StoreConformance

    class TestMyStore(StoreConformance):
        def open(self):
            return MyStore("my://…")

Plain classes with plain asserts: pytest collects them, and `run` runs them without pytest. May import every layer.
"""

from __future__ import annotations

import sys

if not __debug__:
    raise RuntimeError("the conformance suites are asserts: run them without -O")
if "pytest" in sys.modules:
    import pytest

    # Before the suites are imported: a failed assert then shows its values.
    pytest.register_assert_rewrite(f"{__name__}.stores", f"{__name__}.gates", f"{__name__}.agents")

from .agents import AgentConformance
from .gates import GateConformance
from .runner import Failure, run
from .stores import StoreConformance

__all__ = ["AgentConformance", "Failure", "GateConformance", "StoreConformance", "run"]
