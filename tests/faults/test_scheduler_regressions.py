"""What users of other schedulers have reported, on the real store and ledger, with clocks that a test can set."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from nightlatch.core import definition, retry
from nightlatch.core import row as rows
from nightlatch.core.job import Job
from nightlatch.core.protocols import Store
from nightlatch.core.row import COLLAPSED, RAN, SKIPPED, Cursor, Row, SlotRecord
from nightlatch.core.schedule import name_of, named
from nightlatch.core.value import replace
from nightlatch.errors import Busy, InDoubt, StoreUnreachable
from nightlatch.ledger.slots import Slots, merged
from nightlatch.observe import slots
from nightlatch.runtime.supervisor.run import claim
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.runtime.supervisor.start import start
from nightlatch.scheduler import row_plan
from nightlatch.scheduler.people import JobSlots
from nightlatch.scheduler.row_reader import RowReader
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.system import identity
from tests.support.ledgers import begun
from tests.support.scheduling.world import EVENING, HOUR, World, hold, job, world

__all__ = ["world"]


def test_directus_25592_a_suspend_of_eight_hours_is_one_run(world: World) -> None:
    """A job of every minute on a laptop that is suspended overnight: there it ran thousands of times in one second."""
    world.serve(job("job", "every 1m"))
    world.clocks.sleep(8 * HOUR)
    assert world.after(0) == []  # the network is not up yet
    (started,) = world.after(25)
    assert (started[0].missed, started[0].due) == (479, name_of(int(world.clocks.wall() // 60 * 60)))
    world.end(started)
    assert world.outcomes("job") == [(COLLAPSED, "", 479), (RAN, "", 1)]


def test_dbos_transact_py_803_slots_missed_in_a_suspend_are_not_replayed_where_catch_up_is_none(world: World) -> None:
    """A job every ten seconds, 78 minutes of sleep: there hundreds of old ticks were started one after the other."""
    world.serve(job("job", "every 10s", catch_up="none"))
    world.clocks.sleep(78 * 60)
    assert world.after(0) == []
    (started,) = world.after(29)
    assert started[0].missed == 0
    world.end(started)
    assert world.outcomes("job") == [(SKIPPED, "missed", 469), (RAN, "", 1)]
    assert world.after(0) == []


def test_dbos_transact_py_541_of_two_schedulers_on_one_sqlite_file_one_starts_the_slot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the row before either has moved it."""
    world.serve(job("job", "every 1h"))
    first, second = world.scheduler, World(world.store.url, world.clocks)
    second.serve(job("job", "every 1h"))
    real: Callable[..., list[bool]] = world.store.advance

    def advance(moves: Any) -> list[bool]:
        monkeypatch.setattr(world.store, "advance", real)
        second.after(0)
        return real(moves)

    world.clocks.time += HOUR
    monkeypatch.setattr(world.store, "advance", advance)
    first.look()
    assert (len(world.started), len(second.started)) == (0, 1)


def test_kubernetes_42649_what_missed_hundreds_of_slots_every_night_runs_every_morning(world: World) -> None:
    """A cluster that is shut down every night: with over a hundred missed start times, jobs were never started again."""
    world.serve(job("frequent", "every 1m"), job("nightly", "0 2 * * *"))
    for _ in range(3):
        world.clocks.time += 12 * HOUR  # switched off at eight in the evening
        world.boot()
        started = {one[0].name: one for one in world.after(1)}
        assert started["frequent"][0].missed == 719
        assert started["nightly"][0].due.endswith("T02:00Z")
        for one in started.values():
            world.end(one)
        (evening,) = world.after(12 * HOUR - 1)
        world.end(evening)
    assert world.outcomes("nightly") == [(RAN, "", 1)] * 3
    assert world.outcomes("frequent") == [(COLLAPSED, "", 719), (RAN, "", 1)] * 6


def test_systemd_43464_after_a_wake_they_do_not_all_start_at_once(world: World) -> None:
    world.serve(*(job(f"job-{place}", "every 1h") for place in range(10)), at_once=2)
    world.clocks.sleep(6 * HOUR)
    assert world.after(0) == []
    first = world.after(30)
    assert len(first) == 2
    assert world.after(20) == []
    world.end(first[0])
    assert len(world.after(1)) == 1


def test_prefect_19403_many_jobs_that_wait_do_not_block_the_rest(world: World) -> None:
    """There a worker looks at the first 200 runs that are due; when all of them wait for a limit, no other is started."""
    stuck = [f"a-{place}" for place in range(60)]  # all are due before the other one
    world.serve(*(job(name, "every 1h", overlap="queue") for name in stuck), job("other", "30 21 * * *"), at_once=1)
    for name in stuck:
        hold(world, name)
    assert world.after(HOUR) == []
    (started,) = world.after(HOUR / 2)
    assert started[0].name == "other"
    assert world.outcomes(stuck[0]) == []  # it waits, and nothing of it is lost


def test_when_a_run_ends_what_waits_for_room_is_started_without_reading_all_that_is_due(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.serve(job("second", "30 21 * * *"), job("first", "0 21 * * *"), job("third", "31 21 * * *"), at_once=1)
    world.clocks.time += 2 * HOUR
    (started,) = world.after(0)
    read: list[float] = []
    real = world.store.cursors

    def cursors(jobs: Any = None, due: float | None = None) -> Any:
        read.append(due or 0.0)
        return real(jobs, due=due)

    monkeypatch.setattr(world.store, "cursors", cursors)
    order = [started[0].name]
    for _ in range(2):
        world.started.clear()
        world.scheduler.start_waiting({order[-1]})
        assert world.started == []  # its run is still at work
        world.end(started)
        world.scheduler.start_waiting({order[-1]})
        (started,) = world.started
        order.append(started[0].name)
    assert order == ["first", "second", "third"]
    assert max(read) == 0.0, "only open claims, and jobs by their names"


def test_after_a_wake_the_end_of_a_run_starts_nothing_before_the_network_is_up(world: World) -> None:
    world.serve(job("first", "0 21 * * *"), job("second", "1 21 * * *"), at_once=1)
    (started,) = world.after(2 * HOUR)
    world.clocks.sleep(1.5)  # too short to be noticed, and the next look is not due yet
    world.end(started)
    world.clocks.sleep(60)
    world.started.clear()
    world.scheduler._next_look = world.clocks.now() + 1
    world.scheduler.start_waiting({"first"})
    assert world.started == []
    assert len(world.after(25)) == 1


def test_dkron_1569_a_restarted_daemon_knows_what_runs(world: World) -> None:
    world.serve(job("long", "every 1h"), job("other", "every 1h"), at_once=1)
    (started,) = world.after(HOUR)
    Claimed(*started).begin(world.store, world.ledger, hold(world, started[0].name))
    world.boot(at_once=1)
    assert world.after(60) == []  # it has no room
    world.boot(at_once=8)
    assert [one[0].name for one in world.after(HOUR)] == [{"long": "other", "other": "long"}[started[0].name]]
    assert world.outcomes(started[0].name) == [(SKIPPED, "overlap", 1)]  # not started a second time


def test_a_supervisor_reads_its_row_once_unless_another_process_has_moved_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.serve(job("hourly", "every 1h"))
    (started,) = world.after(HOUR)
    claimed, reads = Claimed(*started), list[str]()

    def read(store: Store, name: str) -> Row | None:
        reads.append(name)
        return read_row(store, name)

    monkeypatch.setattr(claim, "read_row", read)
    claimed.waits_unstarted(world.store)
    claimed.begin(world.store, world.ledger, hold(world, "hourly"))
    assert len(reads) == 1
    assert world.after(HOUR) == []  # moves the row: its next slot is skipped
    claimed.end(world.store, world.ledger, "succeeded", ran=True, run="r")
    assert len(reads) == 2
    assert world.outcomes("hourly") == [(RAN, "", 1), (SKIPPED, "overlap", 1)]
    assert (ended := world.row("hourly").claim) and ended.ended == "succeeded"


def test_a_claim_that_was_taken_over_since_its_row_was_read_is_not_begun(world: World) -> None:
    world.serve(job("hourly", "every 1h"))
    (started,) = world.after(HOUR)
    claimed = Claimed(*started)
    claimed.waits_unstarted(world.store)
    row = world.row("hourly")
    assert row.claim
    world.store.advance([row.move(identity.new_id(), claim=replace(row.claim, id="another"))])
    with pytest.raises(Busy, match="taken over"):
        claimed.begin(world.store, world.ledger, hold(world, "hourly"))


@pytest.mark.parametrize(
    ("overlap", "recorded", "missed"),
    [("skip", [(RAN, "", 1), (SKIPPED, "overlap", 7)], 0), ("queue", [(RAN, "", 1)], 7)],
)
def test_posthog_47045_a_run_that_is_stuck_for_seven_hours_drops_no_slot_silently(
    world: World, overlap: str, recorded: list[tuple[str, str, int]], missed: int
) -> None:
    """Every slot that it cost is recorded; or, with "queue", made up for by one run, which the report asks for."""
    world.serve(job("hourly", "every 1h", overlap=overlap))
    (started,) = world.after(HOUR)
    holder = hold(world, "hourly")
    Claimed(*started).begin(world.store, world.ledger, holder)
    for _ in range(7):
        assert world.after(HOUR) == []
    world.end(started)
    world.store.release("hourly", holder.grant)
    assert world.outcomes("hourly") == recorded
    (next_one,) = world.after(HOUR)
    assert next_one[0].missed == missed


@pytest.mark.parametrize(("options", "reason"), [({"late": HOUR}, "late"), ({"catch_up": "none"}, "missed")])
def test_openclaw_73644_what_was_due_at_eleven_does_not_run_after_a_restart_at_ten_at_night(
    world: World, options: dict[str, Any], reason: str
) -> None:
    """Five jobs that watch a market, due between 11:00 and 11:24: there a restart at 22:10 started all of them."""
    minutes = range(0, 25, 6)
    world.serve(*(job(f"market-{minute}", f"{minute} 11 * * *", **options) for minute in minutes))
    world.clocks.time += 26 * HOUR + 600
    world.boot()
    assert world.after(0) == []
    assert [world.outcomes(f"market-{minute}") for minute in minutes] == [[(SKIPPED, reason, 1)]] * 5
    assert [one[0].name for one in world.after(12 * HOUR + 50 * 60)] == ["market-0"]  # the next morning, at eleven


def test_antfarm_218_a_failing_job_backs_off_and_goes_on_by_itself(world: World) -> None:
    world.serve(job("job", "every 1h"))
    ran = []
    for hour in range(24):
        for started in world.after(HOUR):
            ran.append(hour)
            world.end(started, "failed")
    assert ran == [0, 1, 2, 4, 8, 16]
    assert world.row("job").paused is None


def test_claude_code_94415_one_miss_and_it_goes_on(world: World) -> None:
    world.serve(job("job", "every 1h", catch_up="none"))
    assert world.after(1.5 * HOUR) == []
    assert world.outcomes("job") == [(SKIPPED, "missed", 1)]
    assert world.row("job").paused is None
    assert len(world.after(0.5 * HOUR)) == 1


def test_hermes_agent_107485_claimed_and_never_started_three_times(world: World) -> None:
    """What is not begun is started again by the next look that finds it, and counted."""
    world.serve(job("job", "0 2 * * *"))
    (started,) = world.after(6 * HOUR + 1)
    claims = [started[1]]
    for _ in range(3):
        assert world.after(10) == []
        (started,) = world.after(40)
        claims.append(started[1])
    assert len(set(claims)) == 4
    claim = world.row("job").claim
    assert claim and claim.starts == 4
    old = Claimed(started[0], claims[0])  # the first one thaws
    with pytest.raises(Exception, match="taken over"):
        old.begin(world.store, world.ledger, hold(world, "job"))


def test_the_next_firing_of_a_cron_line_starts_what_the_last_one_claimed_and_did_not(world: World) -> None:
    """Each tick is a process of its own: for how long a claim has been as it is, is kept on disk."""
    world.serve(job("job", "0 2 * * *"))
    (first,) = world.after(6 * HOUR + 1)
    world.boot()
    (second,) = world.after(60)
    assert (second[0].due, second[1] == first[1]) == (first[0].due, False)


def test_claude_code_74432_two_firings_of_a_cron_line_take_over_from_one_that_was_killed_right_after_its_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.serve(job("job", "0 2 * * *"))
    with monkeypatch.context() as killed:
        killed.setattr(world.scheduler, "_start", _killed)
        with pytest.raises(KeyboardInterrupt):
            world.after(6 * HOUR + 1)
    started = []
    for _ in range(2):
        world.boot()
        started.append(world.after(60))
    assert [len(found) for found in started] == [0, 1]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_reply_that_is_lost_after_the_claim_starts_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.serve(job("job", "every 1h"))
    real: Callable[..., list[bool]] = world.store.advance
    lost: list[int] = []

    def advance(moves: Any) -> list[bool]:
        won = real(moves)
        if not lost:
            lost.append(1)
            raise StoreUnreachable("the reply is lost")
        return won

    monkeypatch.setattr(world.store, "advance", advance)
    (started,) = world.after(HOUR)
    assert world.row("job").claim and world.row("job").claim.id == started[1]  # type: ignore[union-attr]


def test_a_clock_400_days_ahead_is_set_back_and_what_ran_is_not_run_again(world: World) -> None:
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 400 * 86400
    (early,) = world.after(1)
    world.end(early)
    world.clocks.offset -= 400 * 86400
    for _ in range(30):
        world.after(200)
    row = world.row("job")
    assert row.era == 1 and row.slot <= world.clocks.wall()
    assert rows.RAN in [record.outcome for record in world.ledger.slots.of("job")]
    assert all(record.names_a_run or record.first < world.clocks.wall() for record in world.ledger.slots.of("job"))


def test_a_row_of_a_newer_program_is_left_alone_and_the_others_go_on(world: World) -> None:
    world.serve(job("newer", "every 1h"), job("other", "every 1h"))
    row = world.row("newer")
    body = row.pack().removesuffix("}") + ',"unheard_of":1}'
    move = replace(row.move(identity.new_id()), body=body)
    assert world.store.advance([move]) == [True]
    (started,) = world.after(HOUR)
    assert started[0].name == "other"
    assert world.store.cursors(["newer"])[0].id == move.id


def test_an_edited_schedule_begins_with_its_next_slot(world: World) -> None:
    world.serve(job("job", "every 1h"))
    world.clocks.time += 3.5 * HOUR
    world.serve(job("job", "every 2h"))
    assert world.started == []
    assert world.outcomes("job") == [(SKIPPED, "edited", 3)]
    assert len(world.after(2 * HOUR)) == 1


def test_a_job_that_left_the_file_is_not_overdue_for_ever_and_begins_anew_when_it_comes_back(world: World) -> None:
    world.serve(job("job", "every 1h"), job("other", "every 1h"))
    world.clocks.time += 1.5 * HOUR
    both, world.jobs = world.jobs, {"other": world.jobs["other"]}
    world.scheduler.served["job"] = "job"
    world.scheduler.serve(world.jobs, removed={"job"})
    assert [started[0].name for started in world.after(0)] == ["other"]
    assert world.outcomes("job") == [(SKIPPED, "edited", 1)]
    assert not slots.is_overdue(world.row("job"), world.clocks.wall() + 86400)
    assert "job" not in world.scheduler.served
    world.scheduler.serve(both)
    assert world.after(5 * HOUR)[0][0].name == "other"  # it is in the file again, and begins with its next slot
    assert "job" in [started[0].name for started in world.after(HOUR)]
    assert world.outcomes("job") == [(SKIPPED, "edited", 1)]


def test_a_pause_skips_and_is_not_caught_up(world: World) -> None:
    world.serve(job("job", "every 1h"))
    person = JobSlots(world.store, world.ledger, "job", "ann@here")
    person.pause(reason="moving")
    assert world.after(3 * HOUR) == []
    person.unpause()
    assert world.after(0) == []
    (started,) = world.after(HOUR)
    assert started[0].missed == 0
    assert world.outcomes("job") == [(SKIPPED, "paused", 3)]


def test_a_slot_that_a_person_skips_does_not_run(world: World) -> None:
    world.serve(job("job", "every 1h"))
    slot = (world.clocks.wall() // HOUR + 1) * HOUR
    JobSlots(world.store, world.ledger, "job", "ann@here").skip(slot)
    assert world.after(HOUR) == []
    assert len(world.after(HOUR)) == 1
    assert world.outcomes("job") == [(SKIPPED, "by hand", 1)]


def test_a_slot_that_a_person_skipped_keeps_its_outcome_when_an_outage_begins_with_it(world: World) -> None:
    world.serve(job("job", "every 1h"))
    slot = (world.clocks.wall() // HOUR + 1) * HOUR
    JobSlots(world.store, world.ledger, "job", "ann@here").skip(slot)
    (started,) = world.after(4 * HOUR)
    world.end(started)
    assert world.outcomes("job") == [(SKIPPED, "by hand", 1), (COLLAPSED, "", 2), (RAN, "", 1)]


def test_a_slot_that_ran_before_a_set_back_keeps_its_outcome_when_it_is_the_first_of_those_missed_since(
    world: World,
) -> None:
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 6 * HOUR
    (early,) = world.after(1)
    world.end(early)
    world.clocks.offset -= 6 * HOUR
    while name_of(int(world.row("job").next_due)) != early[0].due:
        for started in world.after(200):
            world.end(started)
    assert world.row("job").era == 1
    world.after(4 * HOUR)
    found = {record.first: record for record in merged(world.ledger.slots.of("job"), world.row("job").records)}
    assert found[float(named(early[0].due))].outcome == RAN


def test_a_ledger_that_slept_through_two_set_backs_strikes_out_by_both(world: World) -> None:
    """What a fast clock had recorded before the first does not count after the first: until the second, slots had their
    own outcomes."""
    hourly = Scheduled(job("job", "every 1h"), "d")
    first, second = EVENING + 2 * HOUR, EVENING + 9 * HOUR
    ahead = SlotRecord(first=EVENING, last=EVENING + 400 * 24 * HOUR, count=1001, outcome=COLLAPSED)
    row = Row(job="job", slot=EVENING + 400 * 24 * HOUR, next_due=0.0)
    row = row_plan.set_back(row_plan.set_back(row, hourly, first, ()), hourly, second, ())
    assert rows.read(Cursor(job="job", id="", slot=row.slot, wake=0.0, body=row.pack())) == row
    world.ledger.slots.put([("job", ahead)])
    RowReader(world.ledger, separate_ledgers=True, say=print).update_ledger([row], {"job": hourly})
    (cut,) = world.ledger.slots.of("job")
    assert (cut.last, cut.count) == (first, 3)


def test_a_record_that_a_frozen_supervisor_writes_after_a_set_back_is_struck_out_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the row before the set-back, and writes down what the row held before its move is refused."""
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 400 * 24 * HOUR
    (early,) = world.after(1)
    world.clocks.offset -= 400 * 24 * HOUR
    real = Slots.put

    def put(self: Slots, *records: Any, **options: Any) -> None:
        monkeypatch.setattr(Slots, "put", real)
        for _ in range(30):
            world.after(200)
        assert world.row("job").era == 1
        real(self, *records, **options)

    monkeypatch.setattr(Slots, "put", put)
    world.end(early)
    assert list(world.ledger.slots.of("job", world.clocks.wall() + 1))
    world.after(HOUR)
    assert not list(world.ledger.slots.of("job", world.clocks.wall() + 1))


def test_a_slot_that_was_given_up_before_a_set_back_keeps_its_outcome(world: World) -> None:
    """It names a run, which may be in another machine's ledger only."""
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 400 * 24 * HOUR
    (early,) = world.after(1)
    Claimed(*early).end(world.store, world.ledger, "needs-attention", ran=False, reason="not started", run="r")
    world.clocks.offset -= 400 * 24 * HOUR
    for _ in range(30):
        for started in world.after(200):
            world.end(started)
    assert world.row("job").era == 1
    assert float(named(early[0].due)) in world.row("job").passed
    assert (SKIPPED, "not started", 1) in world.outcomes("job")


def test_a_slot_whose_claim_ended_without_a_run_is_due_again_after_a_set_back(world: World) -> None:
    """Its record is struck out, so nothing else would say what became of it."""
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 6 * HOUR
    (early,) = world.after(1)
    Claimed(*early).end(world.store, world.ledger, "cancelled", ran=False, reason="overlap")
    world.clocks.offset -= 6 * HOUR
    slot = float(named(early[0].due))
    while world.clocks.wall() < slot + HOUR:
        for started in world.after(200):
            world.end(started)
    assert world.row("job").era == 1
    found = {record.first: record for record in merged(world.ledger.slots.of("job"), world.row("job").records)}
    assert found[slot].outcome == RAN


def test_a_claim_that_ends_without_a_run_after_a_set_back_keeps_its_outcome(world: World) -> None:
    """It was at work when the row was set back, so the row does not decide its slot again."""
    world.serve(job("job", "every 1h"))
    world.clocks.offset += 400 * 24 * HOUR
    (early,) = world.after(1)
    hold(world, "job")
    world.clocks.offset -= 400 * 24 * HOUR
    while world.row("job").era == 0:
        world.after(200)
    Claimed(*early).end(world.store, world.ledger, "cancelled", ran=False, reason="not started")
    for _ in range(8):
        world.after(900)
    assert (SKIPPED, "not started", 1) in world.outcomes("job")


@pytest.mark.parametrize(
    ("reason", "outcome"), [(retry.GAVE_UP, (SKIPPED, "not started", 1)), ("the branch moved", (RAN, "", 1))]
)
def test_what_needs_a_person_is_said_to_have_run_if_it_was_started(
    world: World, reason: str, outcome: tuple[str, str, int]
) -> None:
    """Its supervisor recorded that, and was killed before the row said so. The next one finds it: either an attempt
    was made, or three starts came to nothing and the fourth gave the slot up."""
    world.serve(job("job", "0 2 * * *"))
    (started,) = world.after(6 * HOUR + 1)
    begun(world.ledger, key=started[0].key).finish("needs-attention", reason=reason)
    assert _started(started[0], world.store.url, started[1]) == InDoubt.exit_code
    assert world.outcomes("job") == [outcome]


def test_a_file_from_before_two_edits_is_old_though_it_is_in_force_again_what_its_machine_served() -> None:
    """D0 → D1 → back to D0. A machine that slept through both has pulled the first edit only."""
    row = Row(job="job", slot=0.0, next_due=1.0, definition="d0")
    asleep = definition.mark(row)
    edited = definition.renewed(row, "d1")
    back = definition.renewed(edited, "d0")
    assert definition.judge(edited, "d0", definition.mark(edited), shared=True) == definition.NEW
    assert definition.judge(back, "d1", asleep, shared=True) == definition.OLD


def test_a_definition_whose_move_failed_was_not_served_and_comes_into_force_at_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revert is allowed to a machine that served what is in force. One that believed that it had served the reverted
    one already would be old for ever."""
    hourly = job("job", "every 1h")
    for mine in ("d0", "d1"):
        world.scheduler.serve({"job": Scheduled(hourly, mine)})
        world.after(0)
    world.scheduler.serve({"job": Scheduled(hourly, "d0")})
    with monkeypatch.context() as away:
        away.setattr(world.store, "advance", _unreachable)
        with pytest.raises(StoreUnreachable):
            world.after(0)
    world.after(0)
    assert world.row("job").definition == "d0"


def test_a_definition_can_be_reverted_though_its_daemon_was_killed_right_after_its_move_had_won(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No machine knew that it had served it, so every machine's file was old, and the job silent for ever."""
    hourly, kept = job("job", "every 1h"), dict[str, str]()
    world.scheduler.remember_served = lambda: kept.update(world.scheduler.served)
    world.scheduler.serve({"job": Scheduled(hourly, "d0")})
    world.after(0)
    real = world.store.advance

    def killed(moves: Any) -> None:
        real(moves)
        raise KeyboardInterrupt

    world.scheduler.serve({"job": Scheduled(hourly, "d1")})
    with monkeypatch.context() as dying:
        dying.setattr(world.store, "advance", killed)
        with pytest.raises(KeyboardInterrupt):
            world.after(0)
    assert world.row("job").definition == "d1"
    world.boot()
    world.scheduler.served = kept
    world.scheduler.serve({"job": Scheduled(hourly, "d0")})
    with monkeypatch.context() as away:  # nor is that forgotten when the next move fails
        away.setattr(world.store, "advance", _unreachable)
        with pytest.raises(StoreUnreachable):
            world.after(0)
    world.after(0)
    assert world.row("job").definition == "d0"


def _unreachable(*_: object) -> None:
    raise StoreUnreachable("away")


def _started(job: Job, store: str, claim: Any) -> int:
    """The exit code of a start in a process of its own: a supervisor ends every child of its process."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            start(job, store=store, claim=claim)
        except InDoubt as error:
            code = error.exit_code
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
