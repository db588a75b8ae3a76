"""What may follow what."""

from __future__ import annotations

import pytest

from nightlatch.core import states


def test_the_next_attempt_is_started_of_what_ended_without_success_and_asks_nobody():
    startable = {state for state in states.ALL if states.may_start(state)}
    assert startable == {"failed", "timed-out", "stalled", "over-budget", "cancelled", "lost"}


def test_every_state_is_open_ended_or_asks_a_person():
    assert len(set(states.ALL)) == len(states.ALL) == 12
    for state in states.ALL:
        assert (state in states.OPEN) + states.is_terminal(state) + states.needs_person(state) == 1


@pytest.mark.parametrize("state", states.ALL)
def test_only_a_running_run_gets_a_verdict_by_itself(state):
    for verdict in ("timed-out", "stalled", "over-budget", "lost", "in-doubt"):
        assert states.may_follow(state, verdict) == (state == "running")


def test_nothing_leads_out_of_success_but_asking_for_it_again():
    assert [state for state in states.ALL if states.may_follow("succeeded", state)] == ["pending"]


def test_what_is_in_doubt_is_resolved_before_it_is_tried_again():
    assert not states.may_follow("in-doubt", "pending")
    assert states.may_follow("needs-attention", "pending")


def test_a_command_that_ran_to_its_end_keeps_its_exit_code():
    assert states.exit_code("failed", 3) == 3
    assert states.exit_code("succeeded", 0) == 0
    assert states.exit_code("timed-out", -9) == 124
