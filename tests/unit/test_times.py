"""Times that people type, and times that they are shown."""

from __future__ import annotations

import datetime

import pytest

from nightlatch.cli import reading, screen
from nightlatch.system import clock


@pytest.mark.parametrize(("left", "shown"), [(2 * 86400 - 0.01, "in 2d"), (59.9, "in 1m"), (3599.0, "in 59m")])
def test_what_was_set_a_moment_ago_is_shown_as_it_was_set(left, shown, monkeypatch):
    monkeypatch.setattr(clock, "wall", lambda: 1_000_000.0)
    assert screen.until(1_000_000.0 + left) == shown


def test_since_is_a_time_ago_or_a_day(monkeypatch):
    monkeypatch.setattr(clock, "wall", lambda: 1_000_000.0)
    assert reading.since_of("1h") == 996_400.0
    assert reading.since_of("2026-11-01") == datetime.datetime(2026, 11, 1).timestamp()
    assert reading.since_of(None) is None
