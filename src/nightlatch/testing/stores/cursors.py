"""A job's row moves by compare-and-swap, and never past a slot that is not due yet: so no slot fires twice."""

from __future__ import annotations

from ...core.row import Cursor, Move
from ...core.value import replace
from ...system import identity
from ..expect import together
from .store_case import StoreCase

PAST = 1_700_000_000.0
FUTURE = 4_000_000_000.0


def move(job: str, seen: str = "", *, slot: float = PAST, wake: float = PAST + 60, body: str = "{}") -> Move:
    """A move with a new id."""
    return Move(job=job, seen=seen, id=identity.new_id(), slot=slot, wake=wake, body=body)


def after(moved: Move) -> Cursor:
    """The row, once that move is made."""
    facts = {name: value for name, value in moved.__dict__.items() if name != "seen"}
    return Cursor(**facts)


class Cursors(StoreCase):
    def row(self, job: str) -> Cursor | None:
        found = self.connect().cursors([job])
        assert len(found) <= 1
        return found[0] if found else None

    def made(self, job: str, *, slot: float = PAST) -> Move:
        """Make the job's row; returns the move that did it."""
        first = move(job, slot=slot)
        assert self.store.advance([first]) == [True]
        return first

    def test_a_job_without_a_row_has_none(self) -> None:
        assert self.store.cursors([self.name("job")]) == []

    def test_without_moves_there_are_no_outcomes(self) -> None:
        assert self.store.advance([]) == []

    def test_a_row_is_made_once(self) -> None:
        job = self.name("job")
        first = self.made(job)
        assert self.connect().advance([move(job)]) == [False]
        assert self.row(job) == after(first)

    def test_a_row_moves_from_the_move_that_was_seen(self) -> None:
        job = self.name("job")
        first = self.made(job)
        second = move(job, first.id, slot=PAST + 60, wake=FUTURE, body='{"text": "= \\\\n \\u00e9"}')
        assert self.store.advance([second]) == [True]
        assert self.row(job) == after(second)

    def test_a_move_from_a_state_that_is_out_of_date_loses(self) -> None:
        job = self.name("job")
        first = self.made(job)
        second = move(job, first.id)
        assert self.store.advance([second]) == [True]
        assert self.store.advance([move(job, first.id, slot=PAST + 120)]) == [False]
        assert self.row(job) == after(second)

    def test_a_row_that_is_not_there_does_not_move(self) -> None:
        job = self.name("job")
        assert self.store.advance([move(job, identity.new_id())]) == [False]
        assert self.row(job) is None

    def test_a_move_that_is_sent_again_has_still_won(self) -> None:
        job = self.name("job")
        first = self.made(job)
        assert self.connect().advance([first]) == [True]
        second = move(job, first.id)
        assert self.store.advance([second]) == [True]
        assert self.connect().advance([second]) == [True]
        assert self.row(job) == after(second)

    def test_a_move_that_is_sent_again_after_the_next_one_changes_nothing(self) -> None:
        job = self.name("job")
        first = self.made(job)
        second = move(job, first.id)
        self.store.advance([second])
        assert self.store.advance([first]) == [False]
        assert self.row(job) == after(second)

    def test_a_row_does_not_move_to_a_slot_in_the_future(self) -> None:
        job = self.name("job")
        first, soon = self.made(job), self.store.clock() + 3600
        assert self.store.advance([move(job, first.id, slot=soon)]) == [False]
        assert self.store.advance([move(self.name("job"), slot=soon)]) == [False]
        assert self.row(job) == after(first)

    def test_a_row_may_be_set_back(self) -> None:
        job = self.name("job")
        first = self.made(job, slot=PAST + 60)
        back = move(job, first.id, slot=PAST)
        assert self.store.advance([back]) == [True]
        assert self.row(job) == after(back)

    def test_many_rows_move_at_once_and_each_wins_or_loses_separately(self) -> None:
        jobs = [self.name("job") for _ in range(5)]
        firsts = [move(job) for job in jobs]
        assert self.store.advance(firsts) == [True] * 5
        nexts = [move(job, first.id, slot=PAST + 60) for job, first in zip(jobs, firsts, strict=True)]
        lost = nexts[2] = replace(nexts[2], seen=identity.new_id())
        assert self.store.advance(nexts) == [one is not lost for one in nexts]
        shown = {row.job: row for row in self.connect().cursors(jobs)}
        assert shown == {one.job: after(firsts[2] if one is lost else one) for one in nexts}

    def test_rows_that_are_worth_a_look_are_found_by_their_time(self) -> None:
        early, late = self.name("job"), self.name("job")
        self.store.advance([move(early, wake=PAST), move(late, wake=PAST + 120)])
        found = {row.job for row in self.connect().cursors(due=PAST + 60)}
        assert early in found and late not in found
        assert {early, late} <= {row.job for row in self.store.cursors()}

    def test_times_come_back_as_they_were(self) -> None:
        job = self.name("job")
        self.store.advance([move(job, slot=PAST + 0.125, wake=PAST + 0.375)])
        row = self.row(job)
        assert row is not None and (row.slot, row.wake) == (PAST + 0.125, PAST + 0.375)

    def test_one_of_many_makes_the_row(self) -> None:
        stores = self.connections()
        for _ in range(self.rounds):
            job = self.name("job")
            self._one_wins([move(job) for _ in stores])

    def test_one_of_many_moves_the_row(self) -> None:
        stores, job = self.connections(), self.name("job")
        last = self.made(job)
        for number in range(self.rounds):
            last = self._one_wins([move(job, last.id, slot=PAST + number) for _ in stores])

    def test_batches_in_opposite_orders_do_not_wait_for_each_other(self) -> None:
        stores = self.connections()
        for _ in range(self.rounds):
            jobs = [self.name("job") for _ in range(8)]
            firsts = {job: self.made(job) for job in jobs}
            batches = [
                [move(job, firsts[job].id) for job in jobs[:: 1 - 2 * (index % 2)]] for index in range(len(stores))
            ]
            won = together(lambda index: stores[index].advance(batches[index]), range(len(stores)))  # noqa: B023
            assert not [one for one in won if isinstance(one, BaseException)], won
            for job in jobs:
                winners = [
                    one.id
                    for batch, outcomes in zip(batches, won, strict=True)
                    if isinstance(outcomes, list)
                    for one, yes in zip(batch, outcomes, strict=True)
                    if yes and one.job == job
                ]
                row = self.row(job)
                assert row is not None and winners in ([row.id], [])
                assert winners or row.id == firsts[job].id

    def _one_wins(self, moves: list[Move]) -> Move:
        """Make all moves at once, each on its own connection; returns the one that won."""
        stores = self._open_stores()[-len(moves) :]
        outcomes = together(lambda index: stores[index].advance([moves[index]]) == [True], range(len(moves)))
        if not any(outcomes):  # each store may have left the row to another that was moving it
            outcomes[0] = self.store.advance([moves[0]]) == [True]
        assert sorted(map(repr, outcomes)) == ["False"] * (len(moves) - 1) + ["True"], outcomes
        won = moves[outcomes.index(True)]
        assert self.row(won.job) == after(won)
        return won
