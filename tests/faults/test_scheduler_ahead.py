"""Claims that are prepared before they are due: what is started then, and all that makes the scheduler decide anew."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from nightlatch.core.row import RAN, SKIPPED
from nightlatch.errors import StoreUnreachable
from nightlatch.scheduler.ahead import LEAD
from nightlatch.scheduler.people import JobSlots
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.scheduler.scheduler import Scheduler
from nightlatch.system import identity
from tests.support.ledgers import begun
from tests.support.scheduling.simulation import GIT, Simulation
from tests.support.scheduling.world import EVENING, HOUR, World, hold, job, world

__all__ = ["world"]

LATE = 0.001  # nobody wakes up at the exact time


def prepare(world: World, every: float = HOUR) -> None:
    """The look shortly before the next full hour."""
    world.clocks.time += every - world.clocks.wall() % every - LEAD
    world.started.clear()
    assert world.scheduler.look() == pytest.approx(LEAD, abs=0.002)
    assert world.started == []


def names(started: list[Any]) -> list[str]:
    return sorted(one[0].name for one in started)


# ── what is prepared ──


def test_at_the_due_time_nothing_is_left_to_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.serve(job("a", "every 1h"), job("b", "every 1h"))
    prepare(world)
    with monkeypatch.context() as unread:
        unread.setattr(world.store, "cursors", None)
        assert names(world.after(LEAD + LATE)) == ["a", "b"]
    claim = world.row("a").claim
    assert claim and (claim.slot, claim.at) == (EVENING + HOUR, EVENING + HOUR)


def test_the_scheduler_looks_shortly_before_the_due_time_and_at_it(world: World) -> None:
    world.serve(job("job", "every 1h"))
    world.clocks.time += HOUR - 1
    assert world.scheduler.look() == pytest.approx(1 - LEAD)


def test_a_due_time_costs_two_looks_and_one_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.serve(*(job(f"job-{place}", "every 2s") for place in range(5)))
    reads, looks, runs, begin = 0, 0, 0, world.clocks.time
    real = world.store.cursors

    def cursors(*jobs: Any, **due: Any) -> Any:
        nonlocal reads
        reads += "due" in due
        return real(*jobs, **due)

    monkeypatch.setattr(world.store, "cursors", cursors)
    while world.clocks.time < begin + 60:
        looks += 1
        world.clocks.time += world.scheduler.look() + 0.0001
        for started in world.started:
            world.end(started)
            runs += 1
        world.started.clear()
    assert runs >= 5 * 29
    assert looks <= 62
    assert reads <= 31


def test_what_waits_for_its_hosts_turn_is_prepared_for_that_turn(world: World) -> None:
    world.serve(job("job", "every 1h", hosts=("other", "here")))
    assert world.after(HOUR + 30 - LEAD) == []
    assert names(world.after(LEAD + LATE)) == ["job"]
    assert world.scheduler.look() > 1.0  # one look was enough


# ── what is left for the due time ──


def test_no_more_is_prepared_than_there_is_room(world: World) -> None:
    world.serve(*(job(name, "every 1h") for name in "abc"), at_once=2)
    prepare(world)
    (first, _) = world.after(LEAD + LATE)
    assert world.after(0) == []
    assert world.scheduler.short_of_room
    world.end(first)
    world.scheduler.start_waiting({first[0].name})
    assert names(world.started) == ["c"]


def test_while_slots_wait_for_room_nothing_is_read_ahead(world: World) -> None:
    world.serve(job("a", "every 1h"), job("b", "every 1h"), job("c", "30 21 * * *"), at_once=1)
    world.after(1.5 * HOUR - 1)
    assert world.scheduler.look() == pytest.approx(1)


def test_what_cannot_be_prepared_is_decided_at_the_due_time(world: World) -> None:
    """The run of its last slot is still at work, so its slot is skipped; until then it might have ended."""
    world.serve(job("long", "every 1h"), job("short", "every 1h"))
    for started in world.after(HOUR):
        if started[0].name == "short":
            world.end(started)
    hold(world, "long")
    prepare(world)
    world.clocks.time += LEAD + LATE
    assert world.scheduler.look() == 0.0
    assert names(world.started) == ["short"]
    assert world.outcomes("long") == []
    world.scheduler.look()
    assert world.outcomes("long") == [(SKIPPED, "overlap", 1)]


def test_a_run_that_the_next_slot_cancels_works_until_that_is_due(world: World) -> None:
    world.serve(job("job", "every 10s", overlap="cancel"))
    (started,) = world.after(10)
    _is_cancelled_when_the_slot_is_due(world, started[0].key)


def test_a_run_by_hand_that_the_next_slot_cancels_works_until_that_is_due(world: World) -> None:
    world.serve(job("job", "every 10s", overlap="cancel"))
    hold(world, "job")
    _is_cancelled_when_the_slot_is_due(world, "by hand")


def _is_cancelled_when_the_slot_is_due(world: World, key: str) -> None:
    run = begun(world.ledger, job="job", key=key).run
    prepare(world, every=10)
    found = world.ledger.run(run.id)
    assert found and not found.cancel
    assert world.after(LEAD + LATE) == []
    found = world.ledger.run(run.id)
    assert found and found.cancel


def test_only_claims_are_prepared(world: World) -> None:
    world.serve(job("job", "every 1h"))
    JobSlots(world.store, world.ledger, "job", "ann@here").pause()
    prepare(world)
    assert world.scheduler._prepared is None
    assert world.after(LEAD + LATE) == []
    assert world.outcomes("job") == [(SKIPPED, "paused", 1)]


@pytest.mark.parametrize("shared", [False, True])
def test_a_row_with_another_definition_is_not_prepared(world: World, shared: bool) -> None:
    """Where there is one file its definition comes into force, at the due time; elsewhere it is old, and not started."""
    world.serve(job("job", "every 1h"))
    world.scheduler.shared = shared
    row = world.row("job")
    world.store.advance([row.move(identity.new_id(), definition="theirs", edition=1, before=("job",))])
    world.scheduler.served.clear()
    prepare(world)
    assert world.scheduler._prepared is None
    assert names(world.after(LEAD + LATE)) == ([] if shared else ["job"])


def test_on_git_nothing_is_prepared() -> None:
    """There a look is a request to a remote."""
    world = Simulation(1, GIT)
    world.lead = 60.0
    with mock.patch.object(Scheduler, "_prepare", side_effect=AssertionError):
        world.run()


# ── what makes it decide anew ──


def test_what_was_prepared_is_started_once(world: World) -> None:
    world.serve(job("job", "every 1h"))
    prepare(world)
    assert names(world.after(LEAD + LATE)) == ["job"]
    assert world.after(0.1) == []


def test_nothing_is_claimed_before_it_is_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.serve(job("job", "every 1h"))
    prepare(world)
    with monkeypatch.context() as early:
        early.setattr(world.store, "advance", None)
        assert world.after(LEAD / 2) == []
    assert names(world.after(LEAD / 2 + LATE)) == ["job"]


def test_a_run_that_ended_may_have_given_its_room_to_another(world: World) -> None:
    world.serve(
        job("at-work", "10 20 * * *"), job("queued", "20 20 * * *", overlap="queue"), job("next", "0 21 * * *"),
        at_once=2,
    )  # fmt: skip
    holder = hold(world, "queued")
    assert names(world.after(HOUR / 2)) == ["at-work"]
    hold(world, "at-work")
    prepare(world)
    world.store.release("queued", holder.grant)
    world.scheduler.start_waiting({"queued"})
    assert names(world.started) == ["queued"]
    assert world.after(LEAD + LATE) == []


def test_a_file_that_was_edited_meanwhile_counts(world: World) -> None:
    world.serve(job("job", "every 1h"))
    prepare(world)
    world.scheduler.serve({"job": Scheduled(job("job", "every 1h"), "edited")})
    assert names(world.after(LEAD + LATE)) == ["job"]
    assert world.row("job").definition == "edited"


def test_a_row_that_was_paused_meanwhile_is_looked_at_again(world: World) -> None:
    world.serve(job("job", "every 1h"))
    prepare(world)
    JobSlots(world.store, world.ledger, "job", "ann@here").pause()
    world.clocks.time += LEAD + LATE
    assert world.scheduler.look() == 0.0
    world.scheduler.look()
    assert world.started == []
    assert world.outcomes("job") == [(SKIPPED, "paused", 1)]


def test_a_process_that_was_frozen_meanwhile_starts_nothing_that_is_late(world: World) -> None:
    world.serve(job("job", "every 1h", catch_up="none"))
    prepare(world)
    assert world.after(LEAD + HOUR / 2) == []
    assert world.outcomes("job") == [(SKIPPED, "missed", 1)]


def test_a_clock_that_was_set_meanwhile_decides_what_is_late(world: World) -> None:
    world.serve(job("job", "every 1h", catch_up="none"))
    prepare(world)
    world.clocks.offset += HOUR / 2
    assert world.after(LEAD + LATE) == []
    assert world.outcomes("job") == [(SKIPPED, "missed", 1)]


def test_a_machine_that_slept_meanwhile_waits_for_the_network_though_its_clock_stood_still(world: World) -> None:
    world.serve(job("job", "every 1h"))
    prepare(world)
    world.clocks.sleep(HOUR)
    world.clocks.offset -= HOUR
    assert world.after(LEAD + LATE) == []
    assert names(world.after(25)) == ["job"]


# ── a store that does not answer ──


def test_a_reply_that_is_lost_starts_what_was_prepared_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.serve(job("a", "every 1h"), job("b", "every 1h"))
    prepare(world)
    _lose(world, monkeypatch, replies=1)
    started = world.after(LEAD + LATE)
    assert names(started) == ["a", "b"]
    assert {world.row(one[0].name).claim.id for one in started} == {one[1] for one in started}  # type: ignore[union-attr]
    assert world.after(0) == []


@pytest.mark.parametrize("arrives", [False, True])
def test_while_the_store_cannot_be_reached_nothing_is_started(
    world: World, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """If the moves have arrived, the claims count as never begun, and are taken over."""
    world.serve(job("job", "every 1h"))
    prepare(world)
    with monkeypatch.context() as away:
        _lose(world, away, replies=2, arrives=arrives)
        with pytest.raises(StoreUnreachable):
            world.after(LEAD + LATE)
    assert world.started == []
    assert names(world.after(0.1)) == ([] if arrives else ["job"])
    for started in world.after(40) if arrives else world.started:
        world.end(started)
    assert world.outcomes("job") == [(RAN, "", 1)]


def _lose(world: World, monkeypatch: pytest.MonkeyPatch, *, replies: int, arrives: bool = True) -> None:
    """The next replies to moves are lost, or already the requests."""
    real, lost = world.store.advance, 0

    def advance(moves: Any) -> list[bool]:
        nonlocal lost
        won = real(moves) if arrives else []
        lost += 1
        if lost <= replies:
            raise StoreUnreachable("lost")
        return won

    monkeypatch.setattr(world.store, "advance", advance)
