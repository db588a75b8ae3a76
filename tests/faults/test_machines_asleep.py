"""A daemon that wakes notes how long its machine slept, and the night shows it."""

from __future__ import annotations

import pytest

from nightlatch.errors import StoreUnreachable
from nightlatch.ledger import kinds
from nightlatch.observe.reader import StoreReader
from nightlatch.web.machines import Machines
from nightlatch.web.svg import Track
from tests.support.scheduling.world import HOUR, World, job, world

__all__ = ["world"]


def slept(world: World) -> list[tuple[str, str, float]]:
    found = world.ledger.journal.rare_entries(kinds.SLEPT)
    return [(one.facts["host"], one.facts["elapsed"], float(one.facts["until"])) for one in found]


def test_a_sleep_is_noted_once_from_the_difference_of_two_clocks(world: World) -> None:
    world.serve(job("job", "every 1h"))
    world.after(600)
    assert slept(world) == []  # time that passes awake is not sleep
    world.clocks.sleep(5 * HOUR)
    world.after(0)
    world.after(60)
    assert slept(world) == [("here", "18000", round(world.clocks.wall() - 60))]


def test_a_store_that_does_not_answer_on_waking_hears_of_it_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.serve(job("job", "every 1h"))
    world.clocks.sleep(5 * HOUR)
    woke = world.clocks.wall()

    def unreachable() -> float:
        raise StoreUnreachable("the network is not up")

    with monkeypatch.context() as without:
        without.setattr(world.store, "clock", unreachable)
        with pytest.raises(StoreUnreachable):
            world.after(0)
    world.after(30)
    assert slept(world) == [("here", "18000", round(woke))]


def test_the_night_shows_a_machine_awake_where_it_was_seen_and_asleep_where_it_slept(
    world: World, sqlite_url: str
) -> None:
    world.serve(job("job", "every 1h"))
    begin = world.clocks.wall()
    world.clocks.sleep(5 * HOUR)
    world.after(0)
    end = world.clocks.wall() + HOUR
    found = Machines(StoreReader(sqlite_url), begin - HOUR, end)
    found.note_active("here", begin - HOUR, begin)
    found.note_active("here", end - 60, end)
    (row,) = found.rows(Track(begin - HOUR, end), None)
    assert (row.name, row.note) == ("here", "asleep 5h")
    assert row.picture.count('class="asleep"') == 1 and row.picture.count('class="awake"') == 2
