"""Vendors' managed agents: launched once, watched, and cancelled with proof. The agent works at the vendor; the driver,
a run's command, launches and polls it.

    verdict = nightlatch.agents.run("article", provider="anthropic", agent="agent_1", input="Write it", key="11-17")

An adapter (seam.py) knows its vendor, and nothing of runs, ledgers or clocks.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .call import AgentVerdict, run

_MODULES = {"run": "call", "AgentVerdict": "call"}

__all__ = ["AgentVerdict", "run"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_MODULES[name]}", fromlist=[name])
    return getattr(module, name)
