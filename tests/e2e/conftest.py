from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import Running, one, run


@pytest.fixture
def lapsed(sqlite_url: str, tmp_path: Path) -> str:
    running = Running(sqlite_url, tmp_path, "crawl")
    running.kill()
    return running.id


@pytest.fixture
def in_doubt(sqlite_url: str, lapsed: str) -> str:
    asked = run(sqlite_url, "crawl", "true")
    assert asked.returncode == 76 and f"it needs your decision: nightlatch show {lapsed}\n" in asked.stderr
    assert one(sqlite_url, "crawl")["status"] == "in-doubt"
    return lapsed


@pytest.fixture
def acts(tmp_path: Path) -> Path:
    """A file with a line for each item that was done."""
    path = tmp_path / "acts"
    path.touch()
    return path
