"""The check and the write are one step: nothing can happen between them."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from ...core.model import Mark
from ...errors import StaleToken
from ..expect import moments, raises, timed, together
from .gate_case import BY, GateCase


class GateRaces(GateCase):
    def test_after_a_seal_has_returned_no_older_write_lands(self) -> None:
        """The old holder writes as fast as it can; the new one seals, and what it then reads must not change."""
        first = self.sealed(1)
        span = timed(lambda: self.write(self.gate, first, b"first\n"))
        for turn, delay in enumerate(moments(span, self.rounds)):
            old, new = self.sealed(1000 + 2 * turn), self.mark(1001 + 2 * turn)
            seen, refused = self._overtake(old, new, delay)
            assert refused is True, "the old holder wrote after the seal had returned"
            assert self.read() == seen
            self.write(self.gate, new, b"new\n")

    def test_one_of_many_grants_with_an_equal_token_seals(self) -> None:
        for turn in range(self.rounds):
            marks = [self.mark(1000 + turn) for _ in range(self.racers)]
            outcomes = self._seal_at_once(marks)
            refused = [mark for mark, outcome in zip(marks, outcomes, strict=True) if isinstance(outcome, StaleToken)]
            assert len(refused) == len(marks) - 1, outcomes
            winner = next(mark for mark in marks if mark not in refused)
            assert raises(StaleToken, self.gate.seal, refused[0], BY).current == winner

    def test_the_highest_token_stays_whatever_the_order_of_the_seals(self) -> None:
        for turn in range(self.rounds):
            marks = [self.mark(1000 * (turn + 1) + number) for number in range(self.racers)]
            outcomes = self._seal_at_once(marks)
            assert not isinstance(outcomes[-1], BaseException), outcomes[-1]
            assert raises(StaleToken, self.gate.seal, marks[0], BY).current == marks[-1]

    def _seal_at_once(self, marks: list[Mark]) -> list[Mark | BaseException | None]:
        handles = dict(zip(marks, [self.make_gate() for _ in marks], strict=True))

        def seal(mark: Mark) -> Mark | None:
            before: Mark | None = handles[mark].seal(mark, BY)
            return before

        return together(seal, marks)

    def _overtake(self, old: Mark, new: Mark, delay: float) -> list[object]:
        """What the new holder reads after its seal, and whether the old holder was refused from then on."""
        writing, sealed = threading.Event(), threading.Event()

        def write_on(gate: Any) -> bool:
            for count in itertools.count():
                is_late = sealed.is_set()
                try:
                    self.write(gate, old, b"old %d\n" % count)
                except StaleToken:
                    break
                finally:
                    writing.set()
                if is_late:
                    return False
            return True

        def seal_and_read(gate: Any) -> bytes | None:
            writing.wait(30)
            time.sleep(delay)
            try:
                gate.seal(new, BY)
                return self.read()
            finally:
                sealed.set()

        sealer, writer = self.gate, self.make_gate()
        return list(together(lambda gate: seal_and_read(gate) if gate is sealer else write_on(gate), [sealer, writer]))
