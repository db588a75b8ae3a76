"""A vendor of models on loopback: a real HTTP server that speaks the vendors' APIs, JSON and SSE, and records exactly
what it charged. What happens to a call (its size, its delays, its faults) is its plan's.

    with Vendor() as vendor:
        vendor.plan = lambda call: Plan(output=300, fault=CUT)
        …
        vendor.charged, vendor.calls
"""

from .plan import CUT, ERRORS, LOST, MUTE, OVERLOADED, PROXY, REFUSED, RESET, Plan
from .server import Charge, Received, Vendor

__all__ = [
    "CUT", "ERRORS", "LOST", "MUTE", "OVERLOADED", "PROXY", "REFUSED", "RESET", "Charge", "Plan", "Received", "Vendor",
]  # fmt: skip
