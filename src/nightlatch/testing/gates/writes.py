"""A write of the newest holder lands; a stale one leaves the target as it was, to the byte."""

from __future__ import annotations

from ...errors import StaleToken
from ..expect import raises
from .gate_case import BY, GateCase


class Writes(GateCase):
    def test_a_seal_alone_writes_nothing(self) -> None:
        before = self.read()
        self.sealed()
        assert self.read() == before

    def test_a_sealed_holders_writes_land(self) -> None:
        mark = self.sealed()
        seen = []
        for content in (b"one\n", b"two\n", b"three\n"):
            self.write(self.gate, mark, content)
            seen.append(self.read())
        assert len({self.read(), *seen}) == 3 and seen[-1] == self.read()

    def test_what_lands_is_what_was_written(self) -> None:
        self.write(self.gate, self.sealed(), b"line 1\nline 2\n")
        assert b"line 1\nline 2\n" in (self.read() or b"")

    def test_a_stale_write_leaves_the_target_as_it_was(self) -> None:
        old = self.sealed(1000)
        self.write(self.gate, old, b"by the old holder\n")
        new = self.sealed(1001)
        before = self.read()
        stale = raises(StaleToken, self.write, self.gate, old, b"too late\n")
        assert (stale.offered, stale.current) == (old, new)
        assert self.read() == before
        self.write(self.gate, new, b"by the new holder\n")
        after = self.read()
        raises(StaleToken, self.write, self.gate, old, b"too late\n")
        assert self.read() == after

    def test_a_write_with_an_equal_token_of_another_grant_is_refused(self) -> None:
        self.write(self.gate, self.sealed(1000), b"first\n")
        before = self.read()
        raises(StaleToken, self.write, self.gate, self.mark(1000), b"twin\n")
        assert self.read() == before

    def test_a_stale_write_through_a_handle_made_before_the_seal_is_refused(self) -> None:
        early = self.make_gate()
        old = self.mark(1000)
        early.seal(old, BY)
        self.write(early, old, b"by the old holder\n")
        before = self.read()
        self.sealed(1001)
        raises(StaleToken, self.write, early, old, b"too late\n")
        assert self.read() == before

    def test_after_a_write_by_a_newer_holder_that_did_not_seal_the_older_one_is_refused(self) -> None:
        old = self.sealed(1000)
        self.write(self.gate, self.mark(1001), b"newer\n")
        before = self.read()
        raises(StaleToken, self.write, self.gate, old, b"too late\n")
        raises(StaleToken, self.gate.seal, old, BY)
        assert self.read() == before

    def test_holders_of_two_names_write_side_by_side(self) -> None:
        one, other = self.sealed(9000, "conformance/one"), self.sealed(1000, "conformance/other")
        self.write(self.gate, one, b"one\n")
        self.write(self.gate, other, b"other\n")
        self.write(self.gate, one, b"one again\n")
        assert b"one again\n" in (self.read() or b"")

    def test_a_write_lands_through_a_gate_opened_by_its_url(self) -> None:
        mark = self.sealed()
        self.write(self.reopen(self.gate.url), mark, b"from elsewhere\n")
        assert b"from elsewhere\n" in (self.read() or b"")
