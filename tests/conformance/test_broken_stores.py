"""The suite sees what is wrong: each store that is broken in one way fails the topic it breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch.testing import run
from tests.support.stores import broken_leases, broken_records  # noqa: F401 - each store notes itself in BROKEN
from tests.support.stores.broken import BROKEN
from tests.support.stores.page_store import PageStore


@pytest.mark.parametrize("broken", BROKEN, ids=lambda store: store.__name__)
def test_a_broken_store_is_caught(broken: type[PageStore], tmp_path: Path) -> None:
    path, topic = f"{tmp_path}/page", BROKEN[broken]

    class Suite(topic):  # type: ignore[valid-type, misc]
        ttl = 0.3

        def open(self) -> PageStore:
            return broken(path)

        def elsewhere(self) -> str:
            return f"__import__('{broken.__module__}', fromlist=['*']).{broken.__name__}({path!r})"

    failure = next(run(Suite), None)
    assert failure is not None, f"{topic.__name__} found nothing wrong with it"
