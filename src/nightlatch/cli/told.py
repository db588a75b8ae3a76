"""Speaking to the run's supervisor, for the commands that do."""

from __future__ import annotations

from ..runtime.tell import tell

__all__ = ["tell"]
