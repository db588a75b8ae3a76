"""Two stores do not know of each other's tokens: a gate sealed by holders of one store refuses those of the other."""

from __future__ import annotations

from ...errors import OtherStore
from ..expect import raises
from .gate_case import BY, GateCase


class Strangers(GateCase):
    def test_a_mark_from_another_store_is_refused_whatever_its_token(self) -> None:
        current = self.sealed(1000)
        for token in (1, 1000, 9000):
            stranger = self.from_another_store(self.mark(token))
            refusal = raises(OtherStore, self.gate.seal, stranger, BY)
            assert (refusal.offered, refusal.current) == (stranger, current)

    def test_a_mark_from_another_store_is_refused_under_another_name_too(self) -> None:
        self.sealed(1000, "conformance/one")
        raises(OtherStore, self.gate.seal, self.from_another_store(self.mark(9000, "conformance/other")), BY)

    def test_a_write_from_another_store_is_refused(self) -> None:
        mark = self.sealed(1000)
        self.write(self.gate, mark, b"mine\n")
        before = self.read()
        raises(OtherStore, self.write, self.gate, self.from_another_store(self.mark(9000)), b"theirs\n")
        assert self.read() == before

    def test_the_gate_stays_open_to_its_own_store(self) -> None:
        mark = self.sealed(1000)
        raises(OtherStore, self.gate.seal, self.from_another_store(self.mark(9000)), BY)
        self.write(self.gate, mark, b"mine\n")
        assert self.gate.seal(self.mark(1001), BY) == mark
