from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nightlatch import ledger
from nightlatch.ledger.ledger import Ledger

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def book(ledger_url: str) -> Ledger:
    """On each database."""
    return ledger.open_for(ledger_url)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file that a gate is for."""
    return tmp_path / "out.html"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users may enter. Not below `tmp_path`: every pytest that starts closes that to others again."""
    with tempfile.TemporaryDirectory(prefix="nightlatch-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
