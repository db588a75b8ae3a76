"""A job's cursor moves by compare-and-swap, and never past what is due: so no slot fires twice."""

from __future__ import annotations

from ...core.model import Cursor
from ...core.protocols import Store
from ..expect import together
from .case import StoreCase

PAST = 1_700_000_000.0
FUTURE = 4_000_000_000.0


class Cursors(StoreCase):
    def test_a_job_without_a_cursor_has_none(self) -> None:
        assert self.store.cursor(self.name("job")) is None

    def test_a_cursor_is_made_once(self) -> None:
        job = self.name("job")
        assert self.store.advance(job, None, PAST, "one") is True
        assert self.connect().advance(job, None, PAST + 60, "two") is False
        assert self.store.cursor(job) == Cursor(job=job, next_due=PAST, definition="one")

    def test_a_cursor_moves_from_what_was_seen(self) -> None:
        job = self.name("job")
        self.store.advance(job, None, PAST, "one")
        assert self.store.advance(job, PAST, PAST + 60, "two") is True
        assert self.connect().cursor(job) == Cursor(job=job, next_due=PAST + 60, definition="two")

    def test_a_cursor_that_is_elsewhere_does_not_move(self) -> None:
        job = self.name("job")
        self.store.advance(job, None, PAST, "one")
        self.store.advance(job, PAST, PAST + 60, "one")
        assert self.store.advance(job, PAST, PAST + 120, "two") is False
        assert self.store.cursor(job) == Cursor(job=job, next_due=PAST + 60, definition="one")

    def test_a_cursor_that_is_not_there_does_not_move(self) -> None:
        job = self.name("job")
        assert self.store.advance(job, PAST, PAST + 60, "one") is False
        assert self.store.cursor(job) is None

    def test_a_slot_that_is_still_to_come_is_not_passed(self) -> None:
        job = self.name("job")
        soon = self.store.clock() + 3600
        self.store.advance(job, None, soon, "one")
        assert self.store.advance(job, soon, soon + 60, "one") is False
        cursor = self.store.cursor(job)
        assert cursor is not None and abs(cursor.next_due - soon) < 0.001

    def test_a_cursor_may_stand_in_the_far_future(self) -> None:
        job = self.name("job")
        self.store.advance(job, None, PAST, "one")
        assert self.store.advance(job, PAST, FUTURE, "one") is True
        assert self.store.cursor(job) == Cursor(job=job, next_due=FUTURE, definition="one")

    def test_what_a_cursor_says_can_be_given_back_to_it(self) -> None:
        """A time that comes back rounded would never be found again, and the job would stand still."""
        job = self.name("job")
        self.store.advance(job, None, PAST + 1 / 3, "one")
        cursor = self.store.cursor(job)
        assert cursor is not None
        assert self.store.advance(job, cursor.next_due, PAST + 2 / 3, "one") is True

    def test_jobs_do_not_share_a_cursor(self) -> None:
        one, other = self.name("job"), self.name("job")
        self.store.advance(one, None, PAST, "one")
        assert self.store.cursor(other) is None
        assert self.store.advance(other, None, PAST, "other") is True
        self.store.advance(other, PAST, PAST + 60, "other")
        assert self.store.cursor(one) == Cursor(job=one, next_due=PAST, definition="one")

    def test_one_of_many_makes_the_cursor(self) -> None:
        stores = self.connections()
        for _ in range(self.rounds):
            job = self.name("job")
            self._one_makes_the_next(stores, job, None)

    def test_one_of_many_moves_the_cursor(self) -> None:
        stores, job = self.connections(), self.name("job")
        self.store.advance(job, None, PAST, "start")
        for _ in range(self.rounds):
            cursor = self.store.cursor(job)
            assert cursor is not None
            self._one_makes_the_next(stores, job, cursor.next_due)

    def _one_makes_the_next(self, stores: list[Store], job: str, seen: float | None) -> None:
        nexts = [(seen or PAST) + 60 * (place + 1) for place in range(len(stores))]

        def advance(place: int) -> bool:
            return stores[place].advance(job, seen, nexts[place], f"by {nexts[place]}")

        outcomes = together(advance, range(len(stores)))
        assert sorted(map(repr, outcomes)) == ["False"] * (len(stores) - 1) + ["True"], outcomes
        won = nexts[outcomes.index(True)]
        assert self.store.cursor(job) == Cursor(job=job, next_due=won, definition=f"by {won}")
