"""A gate that others can write in a few lines, and what the suite says when a line is missing."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nightlatch.core.fence import KeptMark, admit, pack, unpack
from nightlatch.core.model import KnownGrants, Mark
from nightlatch.errors import StaleToken
from nightlatch.testing import GateConformance, run


class Shelf:
    """A file behind a gate: its marks are in a file beside it, and one lock makes check and write one step."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"shelf:{path}"

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        with self._locked():
            return self._pass(mark, by, known)

    def write(self, mark: Mark, content: bytes) -> None:
        with self._locked():
            self._pass(mark, "somebody")
            Path(self.path).write_bytes(content)

    def _pass(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        marks = self._marks()
        before = marks.get(mark.name)
        if admit(self.url, marks, mark, known):
            Path(self.path + ".marks").write_text(pack({**marks, mark.name: KeptMark(mark=mark, by=by, at=0.0)}))
        return before.mark if before else None

    def _marks(self) -> dict[str, KeptMark]:
        try:
            return unpack(Path(self.path + ".marks").read_text())
        except FileNotFoundError:
            return {}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


class ShelfConformance(GateConformance):
    kind: type[Shelf] = Shelf
    path: str

    def make_gate(self) -> Shelf:
        return self.kind(self.path)

    def write(self, gate: Shelf, mark: Mark, content: bytes) -> None:
        gate.write(mark, content)

    def read(self) -> bytes | None:
        return Path(self.path).read_bytes() if os.path.exists(self.path) else None

    def reopen(self, url: str) -> Shelf:
        return self.kind(url.removeprefix("shelf:"))


class TestShelf(ShelfConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = f"{tmp_path}/shelf"


class Unguarded(Shelf):
    """Writes without a look at the marks."""

    def write(self, mark: Mark, content: bytes) -> None:
        Path(self.path).write_bytes(content)


class CheckThenWrite(Shelf):
    """Looks at the marks under the lock, and writes when it has let go of it."""

    def write(self, mark: Mark, content: bytes) -> None:
        with self._locked():
            self._pass(mark, "somebody")
        time.sleep(0.05)
        Path(self.path).write_bytes(content)


class Forgetful(Shelf):
    """Keeps its marks in memory: another handle knows nothing of them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._kept: dict[str, KeptMark] = {}

    def _pass(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        before = self._kept.get(mark.name)
        if admit(self.url, self._kept, mark):
            self._kept[mark.name] = KeptMark(mark=mark, by=by, at=0.0)
        return before.mark if before else None


class Blind(Shelf):
    """Compares tokens and nothing else: no grant, no name, no store."""

    def _pass(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        before = next(iter(self._marks().values()), None)
        if before and before.mark.token > mark.token:
            raise StaleToken("behind", offered=mark, current=before.mark)
        Path(self.path + ".marks").write_text(pack({"": KeptMark(mark=mark, by=by, at=0.0)}))
        return before.mark if before else None


class WritesFirst(Shelf):
    """Refuses a stale write, after it has written."""

    def write(self, mark: Mark, content: bytes) -> None:
        with self._locked():
            Path(self.path).write_bytes(content)
            self._pass(mark, "somebody")


class HighestSeen(Shelf):
    """Has no seal: its mark rises with the first write of the new holder only."""

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        with self._locked():
            before = self._marks().get(mark.name)
            admit(self.url, self._marks(), mark, known)
            return before.mark if before else None


@pytest.mark.parametrize(
    ("broken", "topics"),
    [
        (Unguarded, {"Writes", "GateRaces", "Strangers"}),
        (CheckThenWrite, {"GateRaces"}),
        (Forgetful, {"Seals", "Writes", "GateRaces"}),
        (Blind, {"Seals", "Strangers", "Writes", "GateRaces"}),
        (WritesFirst, {"Writes", "Strangers", "GateRaces"}),
        (HighestSeen, {"Seals", "Strangers", "Writes", "GateRaces"}),
    ],
)
def test_a_broken_gate_is_caught(broken: type[Shelf], topics: set[str], tmp_path: Path) -> None:
    places = (f"{tmp_path}/{number}" for number in range(1000))

    class Suite(ShelfConformance):
        kind = broken

        def setup_method(self) -> None:
            self.path = next(places)

    failures = list(run(Suite))
    assert {failure.topic for failure in failures} == topics, "\n".join(map(str, failures))
