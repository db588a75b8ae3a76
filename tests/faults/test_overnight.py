"""The overnight trial in small, every batch hit by something. `make bench ONLY=overnight` is the whole of it."""

from __future__ import annotations

import pytest
from bench.overnight import Contestant
from bench.overnight_server import faults


@pytest.mark.parametrize("kind", ["dedups by key", "with a probe"])
def test_every_item_is_done_exactly_once_and_nobody_has_to_look(kind, tmp_path):
    found = Contestant("Nightlatch", kind, faults(7, 3, 10, 12.0), tmp_path).go()
    assert (found.batches, found.wrong, found.duplicates, found.lost, found.person) == (3, 0, 0, 0, 0)


def test_without_a_probe_nothing_is_doubled_or_lost_and_what_is_in_doubt_is_named(tmp_path):
    found = Contestant("Nightlatch", "without a probe", faults(7, 3, 10, 12.0), tmp_path).go()
    assert (found.duplicates, found.lost) == (0, 0)
    assert found.named and found.person


def test_the_same_faults_break_a_script_that_only_tries_again(tmp_path):
    found = Contestant("retry-only", "with a probe", faults(7, 5, 10, 12.0), tmp_path).go()
    assert found.duplicates
