"""The base class of the tests of a gate: what the gate's author defines, and helpers."""

from __future__ import annotations

from typing import Any

from ... import gates
from ...core.model import Mark
from ...core.value import replace
from ...system import identity

BY = "conformance@here"


class GateCase:
    racers = 4  # how many threads do the same thing at once
    rounds = 5  # how often a race is run

    def make_gate(self) -> Any:
        """A gate on this test's target. If a test calls it again: another handle on the same target."""
        raise NotImplementedError("say how to make the gate: def make_gate(self): return MyGate(…)")

    def write(self, gate: Any, mark: Mark, content: bytes) -> None:
        """Write `content` through the gate, as the holder that has this mark."""
        raise NotImplementedError("say how to write through the gate")

    def read(self) -> bytes | None:
        """The whole content of the target now, as a reader without the gate sees it."""
        raise NotImplementedError("say how to read the target")

    def reopen(self, url: str) -> Any:
        """The gate as another machine makes it, from nothing but the URL in the store's registry."""
        return gates.open(url)

    # Helpers:

    @property
    def gate(self) -> Any:
        attributes = self.__dict__
        if "_gate" not in attributes:
            attributes["_gate"] = self.make_gate()
        return attributes["_gate"]

    def mark(self, token: int = 1000, name: str = "conformance/job") -> Mark:
        """A mark of a new grant, from this test's store."""
        store = self.__dict__.setdefault("_store", identity.new_id())
        return Mark(store=store, name=name, token=token, grant=identity.new_id())

    def from_another_store(self, mark: Mark) -> Mark:
        return replace(mark, store=identity.new_id())

    def sealed(self, token: int = 1000, name: str = "conformance/job") -> Mark:
        """The mark of a new holder that has sealed the gate."""
        mark = self.mark(token, name)
        self.gate.seal(mark, BY)
        return mark
