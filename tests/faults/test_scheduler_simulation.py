"""The scheduler through seeded courses of faults, on each kind of store; and each measure of its protocol taken away.

`python -m tests.soak.seeds 1 1000` runs a thousand seeds on one core, `make soak ONLY='scheduler/*'` as many as there is
time for; NIGHTLATCH_ROUNDS says how many here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest

from nightlatch.core import definition, slots
from nightlatch.core.row import Row, SlotRecord
from nightlatch.core.value import replace
from nightlatch.runtime.supervisor.run import claim as claims
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.scheduler import row_plan
from nightlatch.scheduler.ahead import Prepared
from nightlatch.scheduler.row_reader import RowReader
from nightlatch.scheduler.scheduler import Scheduler
from tests.support.scheduling import sim_store
from tests.support.scheduling.sim_store import SimSlots, SimStore
from tests.support.scheduling.simulation import KINDS, POSTGRES, SQLITE, Simulation, Violation

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "4"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_each_slot_has_one_outcome_whatever_happens(kind: str, seed: int) -> None:
    Simulation(seed, kind).run()


def test_a_seed_replays() -> None:
    assert Simulation(7, POSTGRES, days=0.5).run().course == Simulation(7, POSTGRES, days=0.5).run().course


def test_its_faults_hit_what_is_prepared_ahead() -> None:
    """Most of it is started; some is dropped before it is due, and some the store refuses."""
    made, used, refused = 0, 0, 0
    prepare, start = Scheduler._prepare, Scheduler._start_prepared

    def counted_prepare(self: Scheduler, *of: Any) -> Prepared | None:
        nonlocal made
        prepared = prepare(self, *of)
        made += prepared is not None
        return prepared

    def counted_start(self: Scheduler, prepared: Prepared, now: float) -> float:
        nonlocal used, refused
        used += 1
        pause = start(self, prepared, now)
        refused += prepared.complete and pause == 0.0
        return pause

    with (
        mock.patch.object(Scheduler, "_prepare", counted_prepare),
        mock.patch.object(Scheduler, "_start_prepared", counted_start),
    ):
        for seed in range(12):
            Simulation(seed, SQLITE, days=1.0, faults=2.0).run()
    assert made > used > 1000
    assert refused > 100


# ── each measure taken away ──
# Those whose loss other measures make up for in all but rare courses have tests of their own: a new id at a takeover,
# slots passed at a set-back, the hour of agreement, times too far ahead (test_scheduler_regressions, test_slots).

Measure = Callable[[Simulation], Any]
MEASURES: dict[str, tuple[str, Measure]] = {}


def measure(kind: str) -> Callable[[Measure], Measure]:
    def note(take_away: Measure) -> Measure:
        MEASURES[take_away.__name__] = kind, take_away
        return take_away

    return note


@measure(SQLITE)
def the_record_that_a_move_drops_is_written_first(world: Simulation) -> Any:
    return mock.patch.object(SimSlots, "put")


@measure(POSTGRES)
def a_supervisor_begins_its_claim(world: Simulation) -> Any:
    return mock.patch.object(Claimed, "begin")


@measure(SQLITE)
def a_claim_that_nobody_began_is_taken_over(world: Simulation) -> Any:
    return mock.patch.object(slots, "_abandoned", lambda claim, seen: bool(claim.grant) and not seen.holder)


@measure(SQLITE)
def what_was_begun_and_lost_is_taken_over(world: Simulation) -> Any:
    real = slots._abandoned
    return mock.patch.object(slots, "_abandoned", lambda claim, seen: not claim.grant and real(claim, seen))


@measure(SQLITE)
def a_try_that_is_overdue_is_made_by_another(world: Simulation) -> Any:
    return mock.patch.object(slots, "_waits", lambda claim, now: bool(claim.again_at))


@measure(SQLITE)
def a_row_ahead_of_the_clock_is_set_back(world: Simulation) -> Any:
    _run_ahead(world)
    return mock.patch.object(slots, "_decide_ahead", lambda seen: slots.Decision(look_at=seen.now + 60))


@measure(POSTGRES)
def no_slot_past_the_stores_clock_is_passed(world: Simulation) -> Any:
    """A fast machine decides by its own clock, and nobody refuses."""
    world.shared.ignores_clock = True
    world.shared.server = None
    _run_ahead(world)
    return mock.patch.object(slots, "_decide_ahead", lambda seen: slots.Decision(look_at=seen.now + 60))


@measure(SQLITE)
def what_is_struck_out_leaves_the_ledger(world: Simulation) -> Any:
    return mock.patch.object(RowReader, "_strike")


@measure(SQLITE)
def a_claim_of_this_host_that_was_lost_needs_no_more_room(world: Simulation) -> Any:
    real = Scheduler._decide

    def decide(self: Scheduler, plan: Any, seen: slots.Observation) -> None:
        real(self, plan, replace(seen, room=seen.room and not self._takes_room(plan.row)))

    return mock.patch.object(Scheduler, "_decide", decide)


@measure(POSTGRES)
def a_move_compares_the_id_that_it_read(world: Simulation) -> Any:
    world.shared.compares_nothing = True
    return nullcontext()


@measure(SQLITE)
def what_another_has_moved_first_is_not_started(world: Simulation) -> Any:
    real = SimStore.advance
    return mock.patch.object(SimStore, "advance", lambda self, moves: [True for _ in real(self, moves)])


@measure(SQLITE)
def a_record_grows_only_if_it_ends_at_the_rows_slot(world: Simulation) -> Any:
    def grown(self: Row, *new: SlotRecord, keep: int = 0) -> tuple[SlotRecord, ...]:
        last = self.records[-1] if self.records else None
        one = last.joined_with(new[0]) if last and new else None
        if one:
            return (*self.records[:-1], one, *new[1:])[-max(keep, len(new)) :]
        return (*self.records, *new)[-max(keep, len(new)) :] if new else self.records

    return mock.patch.object(Row, "with_records", grown)


@measure(POSTGRES)
def an_old_definition_is_not_served(world: Simulation) -> Any:
    return mock.patch.object(
        definition, "judge", lambda row, mine, *_, **__: "same" if row.definition == mine else "new"
    )


@measure(POSTGRES)
def a_machine_that_served_what_is_in_force_may_go_back(world: Simulation) -> Any:
    real = definition.judge
    return mock.patch.object(definition, "judge", lambda row, mine, _, shared: real(row, mine, "", shared=shared))


@measure(POSTGRES)
def what_of_the_old_schedule_was_due_is_recorded_at_an_edit(world: Simulation) -> Any:
    return mock.patch.object(row_plan, "due_before", return_value=None)


@measure(POSTGRES)
def a_row_of_a_newer_program_is_left_alone(world: Simulation) -> Any:
    world.shared.reads_newer = True
    return nullcontext()


@measure(SQLITE)
def what_one_program_packs_another_reads(world: Simulation) -> Any:
    real = sim_store._read
    return mock.patch.object(sim_store, "_read", lambda cursor: replace(real(cursor), counted=()))


@measure(SQLITE)
def a_slot_is_given_up_after_three_lost_starts(world: Simulation) -> Any:
    world.dies_at_work = "often"
    return mock.patch.object(claims, "STARTS", 10**6)


def _run_ahead(world: Simulation) -> None:
    """Late in the course a machine's clock is 400 days fast for a while."""
    (machine, *_) = world.machines
    world.at(75_000, lambda: setattr(machine, "offset", 400 * 86_400.0))
    world.at(85_000, lambda: setattr(machine, "offset", 0.0))


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_a_measure_that_is_taken_away_is_missed(name: str) -> None:
    kind, take_away = MEASURES[name]
    for seed in range(60):
        world = Simulation(seed, kind, days=1.0, faults=2.0)
        try:
            with take_away(world):
                world.run()
        except Violation:
            return
    raise AssertionError(f"nobody noticed that it is not so: {name}")
