"""What a due slot becomes: the pure function, as a table and case by case."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from nightlatch.core import slots
from nightlatch.core.job import CANCEL, NONE, ONE, QUEUE, SKIP
from nightlatch.core.row import COLLAPSED, SKIPPED, Claim, Pause, Row, SlotRecord
from nightlatch.core.slots import Decision, Due, Observation, Policy, decide
from nightlatch.core.stage import MANUAL, UNATTENDED
from nightlatch.core.value import replace

HOUR = 3600.0
NOW = 500_000 * HOUR + 10  # ten seconds after a slot
SLOT = 500_000 * HOUR

FREE = Row(job="job", id="m", slot=SLOT - HOUR, next_due=SLOT)
DUE = Due(first=SLOT, newest=SLOT, following=SLOT + HOUR)
MISSED = Due(first=SLOT - 3 * HOUR, newest=SLOT, previous=SLOT - HOUR, count=4, following=SLOT + HOUR)
OPEN = Claim(id="c", slot=SLOT - HOUR, by="here", at=SLOT - HOUR, grant="g", token=7, attempted=True)


def row(**changes: Any) -> Row:
    return replace(FREE, **changes)


def word(decision: Decision) -> str:
    """The decision in one word."""
    if decision.claim:
        return "claim"
    if decision.cancel:
        return "cancel"
    if decision.set_back:
        return "set back"
    if decision.slot is not None:
        return f"skip {decision.records[-1].reason}"
    return "wait"


CELLS = list(product((SKIP, QUEUE, CANCEL), (ONE, NONE), (False, True), (False, True), (False, True)))


@pytest.mark.parametrize(("overlap", "catch_up", "paused", "held", "late"), CELLS)
def test_overlap_catch_up_paused_and_held(overlap: str, catch_up: str, paused: bool, held: bool, late: bool) -> None:
    """`held`: another run has the lease. `late`: the slot is found two hours after its time."""
    seen = Observation(now=NOW + (2 * HOUR if late else 0), holder="other" if held else "")
    due = replace(DUE, following=SLOT + 3 * HOUR)
    decision = decide(
        row(paused=Pause(by="me", at=0.0) if paused else None), due, Policy(overlap=overlap, catch_up=catch_up), seen
    )
    expected = (
        "skip paused" if paused
        else "skip missed" if late and catch_up == NONE
        else "claim" if not held
        else {SKIP: "skip overlap", QUEUE: "wait", CANCEL: "cancel"}[overlap]
    )  # fmt: skip
    assert word(decision) == expected
    assert (decision.slot is None) == (expected in ("wait", "cancel"))  # what waits leaves the row where it is


@pytest.mark.parametrize(("overlap", "expected"), [(SKIP, "skip overlap"), (QUEUE, "wait"), (CANCEL, "cancel")])
def test_a_slot_that_is_due_while_the_claim_before_it_is_at_work(overlap: str, expected: str) -> None:
    assert word(decide(row(claim=OPEN), DUE, Policy(overlap=overlap), Observation(now=NOW, holder="g"))) == expected


def test_missed_slots_collapse_into_the_newest() -> None:
    decision = decide(row(slot=SLOT - 4 * HOUR, last_success="before"), MISSED, Policy(), Observation(now=NOW))
    assert decision.claim and (decision.claim.slot, decision.claim.missed, decision.claim.since) == (SLOT, 3, "before")
    (record,) = decision.records
    assert (record.outcome, record.first, record.last, record.count, record.slot) == (
        COLLAPSED, SLOT - 3 * HOUR, SLOT - HOUR, 3, SLOT,
    )  # fmt: skip


def test_without_catch_up_the_newest_still_runs_if_it_is_on_time() -> None:
    decision = decide(row(slot=SLOT - 4 * HOUR), MISSED, Policy(catch_up=NONE), Observation(now=NOW))
    assert decision.claim and decision.claim.missed == 0
    assert [(one.outcome, one.reason, one.count) for one in decision.records] == [(SKIPPED, slots.MISSED, 3)]


def test_openclaw_73644_a_morning_job_does_not_run_at_ten_at_night() -> None:
    policy = Policy(late=2 * HOUR)
    assert word(decide(FREE, DUE, policy, Observation(now=SLOT + 13 * HOUR))) == "skip late"
    assert word(decide(FREE, DUE, policy, Observation(now=SLOT + HOUR))) == "claim"


def test_no_room_leaves_the_row_where_it_is() -> None:
    assert word(decide(FREE, DUE, Policy(), Observation(now=NOW, room=False))) == "wait"


def test_hosts_take_turns_and_others_never_claim() -> None:
    second = Policy(delay=slots.TURN)
    assert decide(FREE, DUE, second, Observation(now=SLOT + 29)).look_at == SLOT + 30
    assert word(decide(FREE, DUE, second, Observation(now=SLOT + 30))) == "claim"
    assert word(decide(FREE, DUE, Policy(delay=None), Observation(now=SLOT + HOUR))) == "wait"


def test_the_stage_manual_skips_and_the_rows_stage_counts_before_the_files() -> None:
    assert word(decide(FREE, DUE, Policy(stage=MANUAL), Observation(now=NOW))) == "skip stage"
    assert word(decide(row(stage=MANUAL), DUE, Policy(), Observation(now=NOW))) == "skip stage"
    assert word(decide(row(stage=UNATTENDED), DUE, Policy(stage=MANUAL), Observation(now=NOW))) == "claim"


def test_a_plan_that_waits_for_approval_skips_slots() -> None:
    held = replace(OPEN, held={"run": "r", "host": "", "until": NOW + HOUR, "head": "h", "what": "writes"})
    assert word(decide(row(claim=held), DUE, Policy(overlap=CANCEL), Observation(now=NOW))) == "skip waits"


@pytest.mark.parametrize(("failures", "periods"), [(2, 0), (3, 2), (4, 4), (5, 8), (60, 24)])
def test_antfarm_218_a_failing_job_backs_off_by_periods_up_to_a_day(failures: int, periods: int) -> None:
    failing = row(failures=failures, failed_at=NOW - periods * HOUR + 1)
    assert word(decide(failing, DUE, Policy(), Observation(now=NOW))) == ("skip failing" if periods else "claim")
    over = row(failures=failures, failed_at=NOW - periods * HOUR)
    assert word(decide(over, DUE, Policy(), Observation(now=NOW))) == "claim"


def test_a_failure_beyond_the_clock_is_over() -> None:
    assert word(decide(row(failures=9, failed_at=NOW + 400 * 86400), DUE, Policy(), Observation(now=NOW))) == "claim"


def test_a_pause_ends_by_itself_and_its_slots_are_not_caught_up() -> None:
    paused = row(paused=Pause(by="me", at=SLOT - HOUR, until=SLOT + 5))
    decision = decide(paused, DUE, Policy(), Observation(now=NOW))
    assert decision.unpause and word(decision) == "skip paused"
    assert decide(paused, None, Policy(), Observation(now=NOW)).unpause


# ── claims ──

UNBEGUN = replace(OPEN, grant="", token=0, attempted=False)


def test_claude_code_74432_a_claim_that_nobody_began_is_taken_over_after_a_while() -> None:
    fresh = Observation(now=NOW, unchanged=29.0)
    assert word(decide(row(claim=UNBEGUN), None, Policy(), fresh)) == "wait"
    taken = decide(row(claim=UNBEGUN), None, Policy(), replace(fresh, unchanged=30.0)).claim
    assert taken and (taken.slot, taken.starts, taken.id) == (UNBEGUN.slot, 2, "")


@pytest.mark.parametrize(("ahead", "taken"), [(600.0, False), (slots.FARTHEST - 1, False), (400 * slots.DAY, True)])
def test_a_next_try_further_ahead_than_it_could_have_been_set_is_made_now(ahead: float, taken: bool) -> None:
    """A clock that was 400 days fast set it; its supervisor is gone."""
    waits = row(claim=replace(OPEN, grant="", token=0, again_at=NOW + ahead))
    assert (decide(waits, None, Policy(), Observation(now=NOW)).claim is not None) == taken


def test_where_no_clock_is_shared_it_takes_longer() -> None:
    seen = Observation(now=NOW, unchanged=119.0, patience=slots.UNBEGUN_WATCHED)
    assert word(decide(row(claim=UNBEGUN), None, Policy(), seen)) == "wait"


def test_a_claim_whose_lease_is_held_is_not_taken_over() -> None:
    assert word(decide(row(claim=UNBEGUN), None, Policy(), Observation(now=NOW, unchanged=99.0, holder="x"))) == "wait"


def test_a_claim_that_was_begun_and_whose_holder_is_gone_is_taken_over_at_once() -> None:
    taken = decide(row(claim=OPEN), None, Policy(), Observation(now=NOW)).claim
    assert taken and (taken.grant, taken.starts, taken.attempted) == ("", 2, True)


def test_a_newer_due_slot_supersedes_a_lost_start() -> None:
    set_back_since = row(claim=UNBEGUN, era=1)
    decision = decide(set_back_since, DUE, Policy(), Observation(now=NOW, unchanged=31.0))
    assert decision.claim and (decision.claim.slot, decision.claim.missed) == (SLOT, 1)
    (lost,) = decision.records
    assert (lost.first, lost.outcome, lost.slot, lost.era) == (UNBEGUN.slot, COLLAPSED, SLOT, 1)


def test_what_was_attempted_is_never_superseded() -> None:
    decision = decide(row(claim=OPEN), DUE, Policy(), Observation(now=NOW))
    assert decision.claim and decision.claim.slot == OPEN.slot and not decision.records


def test_between_two_tries_nobody_takes_over_until_it_is_overdue() -> None:
    waiting = row(claim=replace(OPEN, grant="", again_at=NOW + 100))
    assert decide(waiting, None, Policy(), Observation(now=NOW, unchanged=9999.0)).look_at == NOW + 130
    assert word(decide(waiting, None, Policy(), Observation(now=NOW + 129))) == "wait"
    assert word(decide(waiting, None, Policy(), Observation(now=NOW + 131))) == "claim"


def test_a_try_further_ahead_than_it_could_have_been_set_is_over() -> None:
    waiting = row(claim=replace(OPEN, grant="", again_at=NOW + 400 * 86400))
    assert word(decide(waiting, None, Policy(), Observation(now=NOW))) == "claim"


def test_a_machine_that_may_not_run_it_takes_nothing_over() -> None:
    assert word(decide(row(claim=OPEN), None, Policy(delay=None), Observation(now=NOW))) == "wait"


# ── clocks ──


@pytest.mark.parametrize(("ahead", "steady", "mine", "expected"), [
    (HOUR, 9999.0, True, "wait"),  # a slot and an hour are nothing
    (400 * 86400.0, 3599.0, True, "wait"),
    (400 * 86400.0, 3600.0, True, "set back"),
    (400 * 86400.0, 3600.0, False, "wait"),
])  # fmt: skip
def test_a_row_ahead_of_the_clock(ahead: float, steady: float, mine: bool, expected: str) -> None:
    there = row(slot=SLOT + ahead, next_due=SLOT + ahead + HOUR)
    assert word(decide(there, None, Policy(), Observation(now=NOW, steady=steady, may_set_back=mine))) == expected


def test_a_slot_that_ran_before_the_row_was_set_back_is_passed() -> None:
    decision = decide(row(passed=(SLOT,)), DUE, Policy(), Observation(now=NOW))
    assert (decision.slot, decision.records, decision.claim) == (SLOT, (), None)
    older = decide(row(passed=(SLOT,)), MISSED, Policy(), Observation(now=NOW))
    assert [(one.outcome, one.count) for one in older.records] == [(COLLAPSED, 3)]


# ── records ──


def test_equal_neighbours_are_one_growing_record() -> None:
    one = SlotRecord(first=1.0, last=2.0, count=2, outcome=SKIPPED, reason="overlap")
    holding = row(records=(one,), slot=2.0)
    (grown,) = holding.with_records(SlotRecord(first=3.0, last=3.0, outcome=SKIPPED, reason="overlap"))
    assert (grown.first, grown.last, grown.count) == (1.0, 3.0, 3)
    other = SlotRecord(first=3.0, last=3.0, outcome=SKIPPED, reason="late")
    assert holding.with_records(other) == (other,)
    assert holding.with_records(other, keep=50) == (one, other)
    assert holding.with_records() == (one,)
    claimed = replace(holding, slot=2.5)  # the slot between them is claimed
    again = replace(one, first=3.0, last=3.0, count=1)
    assert claimed.with_records(again) == (again,)
