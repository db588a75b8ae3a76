"""The suite on a store that is not ours, by its own clock and without one; and the suite itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.testing import StoreConformance, run
from nightlatch.testing.gates import GateConformance
from tests.support.stores.page_store import ClocklessStore, PageStore


class TestPageStore(StoreConformance):
    kind: type[PageStore] = PageStore
    ttl = 0.3

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = f"{tmp_path}/page"

    def open(self) -> PageStore:
        return self.kind(self.path)

    def elsewhere(self) -> str:
        return f"__import__('tests.support.stores.page_store', fromlist=['*']).{self.kind.__name__}({self.path!r})"


class TestClocklessStore(TestPageStore):
    kind = ClocklessStore
    has_clock = False


@pytest.mark.parametrize("suite", [StoreConformance, GateConformance])
def test_no_topic_hides_a_test_or_a_helper_of_another(suite: type) -> None:
    """The topics are put together by inheritance: of two methods with one name, one would never run."""
    case = suite.__mro__[-2]
    own = [name for topic in suite.__mro__[1:-2] for name in vars(topic) if not name.startswith("__")]
    assert len(own) == len(set(own))
    assert not set(own) & set(vars(case))


def test_a_store_that_cannot_be_opened_fails_every_test_and_says_why() -> None:
    failures = list(run(StoreConformance))
    assert {str(failure.error) for failure in failures} == {
        "say how to open the store: def open(self): return MyStore(…)"
    }
    assert len(failures) > 90


def test_the_suites_do_without_pytest(tmp_path: Path) -> None:
    program = f"""
import sys
from nightlatch.testing import StoreConformance, run
from nightlatch.testing.stores import DoneKeys
from tests.support.stores.page_store import PageStore
class Suite(DoneKeys):
    def open(self):
        return PageStore({str(tmp_path / "page")!r})
assert not list(run(Suite))
assert "pytest" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
