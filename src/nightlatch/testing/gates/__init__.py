"""The conformance suite for gates, a file a topic."""

from __future__ import annotations

from .gate_races import GateRaces
from .seals import Seals
from .strangers import Strangers
from .writes import Writes


class GateConformance(Seals, Strangers, Writes, GateRaces):
    """Everything a gate has to show. Derive from it, and say how to `make_gate`, `write` and `read`.

    How another machine makes the gate again from its URL is `reopen`, `nightlatch.gates.open` by default.
    """


__all__ = ["GateConformance", "GateRaces", "Seals", "Strangers", "Writes"]
