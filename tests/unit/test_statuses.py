"""What may follow what."""

from __future__ import annotations

import pytest

from nightlatch.core import statuses


def test_the_next_attempt_is_started_of_what_ended_without_success_and_asks_nobody():
    startable = {status for status in statuses.ALL if statuses.may_start(status)}
    assert startable == {"failed", "timed-out", "stalled", "over-budget", "cancelled", "lost"}


def test_every_state_is_open_ended_or_asks_a_person():
    assert len(set(statuses.ALL)) == len(statuses.ALL) == 12
    for status in statuses.ALL:
        assert (status in statuses.OPEN) + statuses.is_terminal(status) + statuses.needs_person(status) == 1


@pytest.mark.parametrize("status", statuses.ALL)
def test_only_a_running_run_gets_a_verdict_by_itself(status):
    for verdict in ("timed-out", "stalled", "over-budget", "lost", "in-doubt"):
        assert statuses.may_follow(status, verdict) == (status == "running")


def test_nothing_leads_out_of_success_but_asking_for_it_again():
    assert [status for status in statuses.ALL if statuses.may_follow("succeeded", status)] == ["pending"]


def test_what_is_in_doubt_is_resolved_before_it_is_tried_again():
    assert not statuses.may_follow("in-doubt", "pending")
    assert statuses.may_follow("needs-attention", "pending")


def test_a_command_that_ran_to_its_end_keeps_its_exit_code():
    assert statuses.exit_code("failed", 3) == 3
    assert statuses.exit_code("succeeded", 0) == 0
    assert statuses.exit_code("timed-out", -9) == 124
