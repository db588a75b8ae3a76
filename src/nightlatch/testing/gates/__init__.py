"""The conformance suite for gates, a file a topic."""

from __future__ import annotations


class GateConformance:
    """Everything a gate has to show."""
