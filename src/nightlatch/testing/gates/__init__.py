"""The conformance suite for gates, a file for each topic."""

from __future__ import annotations

from .gate_races import GateRaces
from .seals import Seals
from .strangers import Strangers
from .writes import Writes


class GateConformance(Seals, Strangers, Writes, GateRaces):
    """Everything a gate has to show. Derive from it, and say how to `make_gate`, `write` and `read`.

    `reopen` makes the gate again from its URL, as another machine does; by default with `nightlatch.gates.open`.
    """


__all__ = ["GateConformance", "GateRaces", "Seals", "Strangers", "Writes"]
