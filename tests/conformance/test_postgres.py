"""PostgreSQL keeps every promise of a store."""

from __future__ import annotations

import pytest

from nightlatch import connect
from nightlatch.core.protocols import Store
from nightlatch.testing import StoreConformance


class TestPostgres(StoreConformance):
    ttl = 2.0  # a request is given up after a sixth of it, and a busy machine needs its time

    @pytest.fixture(autouse=True)
    def place(self, postgres_url: str) -> None:
        self.url = postgres_url

    def open(self) -> Store:
        return connect(self.url)
