"""The conformance suite for stores, a file for each topic."""

from __future__ import annotations

from .connections import Connections
from .cursors import Cursors
from .done_keys import DoneKeys
from .fencing import Fencing
from .gate_registry import GateRegistry
from .keys_begun import KeysBegun
from .leases import Leases
from .lost_replies import LostReplies
from .names import Names
from .races import Races
from .store_case import StoreCase
from .takeover import Takeovers
from .tokens import Tokens


class StoreConformance(
    Leases,
    Names,
    Tokens,
    Races,
    Takeovers,
    Fencing,
    DoneKeys,
    KeysBegun,
    Cursors,
    GateRegistry,
    LostReplies,
    Connections,
):
    """Everything a store has to show. Derive from it, say how to `open` yours, and let pytest find it.

    `StoreCase` has what else you can define: `has_clock`, a `ttl` that suits the store, the `factor` by which it is
    slower than a local file, and `elsewhere`, by which another process opens it.
    """


__all__ = [
    "Connections",
    "Cursors",
    "DoneKeys",
    "Fencing",
    "GateRegistry",
    "KeysBegun",
    "Leases",
    "LostReplies",
    "Names",
    "Races",
    "StoreCase",
    "StoreConformance",
    "Takeovers",
    "Tokens",
]
