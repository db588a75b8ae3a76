from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.counting_server import Counting


@pytest.fixture
def server() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()
