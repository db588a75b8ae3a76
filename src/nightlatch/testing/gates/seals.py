"""A seal raises the mark: from then on every older grant is refused."""

from __future__ import annotations

from ...core.model import KnownGrants
from ...core.value import replace
from ...errors import Forgotten, OtherStore, StaleToken
from ..expect import raises
from .gate_case import BY, GateCase


class Seals(GateCase):
    def test_the_first_seal_finds_no_mark(self) -> None:
        assert self.gate.seal(self.mark(), BY) is None

    def test_a_seal_returns_the_mark_it_replaced(self) -> None:
        first, second = self.mark(1000), self.mark(1001)
        self.gate.seal(first, BY)
        assert self.gate.seal(second, BY) == first
        assert self.gate.seal(self.mark(2000), BY) == second

    def test_an_older_mark_is_refused_with_the_current_mark(self) -> None:
        current, older = self.sealed(1001), self.mark(1000)
        stale = raises(StaleToken, self.gate.seal, older, BY)
        assert not isinstance(stale, OtherStore)
        assert (stale.offered, stale.current) == (older, current)

    def test_a_refused_seal_changes_nothing(self) -> None:
        current = self.sealed(1001)
        raises(StaleToken, self.gate.seal, self.mark(1000), BY)
        assert self.gate.seal(self.mark(1002), BY) == current

    def test_an_equal_token_of_another_grant_is_refused(self) -> None:
        """A store that was restored from a backup grants a token twice; the grant tells the two apart."""
        current, same_token = self.sealed(1000), self.mark(1000)
        stale = raises(StaleToken, self.gate.seal, same_token, BY)
        assert (stale.offered, stale.current) == (same_token, current)

    def test_a_mark_of_a_grant_that_the_store_has_forgotten_stays(self) -> None:
        """That mark is the only evidence that the store was restored from a backup: every later seal has to find it."""
        current = self.sealed(1001)
        for token in (1002, 1003):
            mine = self.mark(token)
            known = KnownGrants(grants=frozenset({mine.grant, self.mark().grant}), floor=1000)
            stale = raises(Forgotten, self.gate.seal, mine, BY, known)
            assert (stale.offered, stale.current) == (mine, current)
        mine = self.mark(1004)
        assert self.gate.seal(mine, BY, KnownGrants(grants=frozenset({mine.grant}), floor=1001)) == current
        later = self.mark(1005)
        assert self.gate.seal(later, BY, KnownGrants(grants=frozenset({later.grant, mine.grant}), floor=0)) == mine

    def test_the_same_mark_is_accepted_again(self) -> None:
        mark = self.sealed(1000)
        self.gate.seal(mark, BY)
        self.make_gate().seal(mark, BY)
        raises(StaleToken, self.gate.seal, self.mark(1000), BY)

    def test_a_holder_may_raise_its_own_token(self) -> None:
        mark = self.sealed(1000)
        raised = replace(mark, token=5000)
        assert self.gate.seal(raised, BY) == mark
        raises(StaleToken, self.gate.seal, mark, BY)

    def test_two_lease_names_do_not_fence_each_other(self) -> None:
        self.sealed(9000, "conformance/one")
        assert self.gate.seal(self.mark(1000, "conformance/other"), BY) is None
        raises(StaleToken, self.gate.seal, self.mark(8999, "conformance/one"), BY)
        raises(StaleToken, self.gate.seal, self.mark(999, "conformance/other"), BY)

    def test_a_seal_holds_for_every_handle(self) -> None:
        other = self.make_gate()
        current = self.sealed(1001)
        assert raises(StaleToken, other.seal, self.mark(1000), BY).current == current

    def test_a_seal_holds_for_a_gate_opened_by_its_url(self) -> None:
        current = self.sealed(1001)
        again = self.reopen(self.gate.url)
        assert again.url == self.gate.url
        assert raises(StaleToken, again.seal, self.mark(1000), BY).current == current
        assert again.seal(self.mark(1002), BY) == current

    def test_tokens_may_be_as_large_as_stores_make_them(self) -> None:
        current = self.sealed(2**53 - 2)
        raises(StaleToken, self.gate.seal, self.mark(2**53 - 3), BY)
        assert self.gate.seal(self.mark(2**53 - 1), BY) == current

    def test_any_name_of_a_lease_can_stand_in_a_mark(self) -> None:
        names = ["a", "A", "a/b", "a/b/c", "a.lock", "a#0", "a:b@c+d=e,f", "a_b-"]
        marks = [self.sealed(1000 + number, name) for number, name in enumerate(names)]
        for name, mark in zip(names, marks, strict=True):
            assert self.gate.seal(self.mark(2000, name), BY) == mark
