"""How long the driver of an agent waits between two polls."""

from __future__ import annotations

import time
from typing import Any

import pytest

from nightlatch.agents.drive import AgentDriver
from nightlatch.system import clock


def test_a_pause_is_as_long_as_the_vendor_asked_for(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    driver: Any = object.__new__(AgentDriver)
    driver._sleep(45.0)
    assert now[0] == pytest.approx(1045.0)
