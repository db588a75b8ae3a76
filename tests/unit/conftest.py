from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch import ledger
from nightlatch.ledger.ledger import Ledger


@pytest.fixture
def book(ledger_url: str) -> Ledger:
    """On each database."""
    return ledger.open_for(ledger_url)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file that a gate is for."""
    return tmp_path / "out.html"
