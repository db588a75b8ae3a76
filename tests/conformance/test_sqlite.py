"""SQLite keeps every promise of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch import connect
from nightlatch.core.protocols import Store
from nightlatch.testing import StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.url = f"sqlite:///{tmp_path}/state/nightlatch.db"

    def open(self) -> Store:
        return connect(self.url)
