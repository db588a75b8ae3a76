"""The gates of the package keep what `GateConformance` asks of any gate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.system import identity
from nightlatch.testing.gates import GateConformance
from tests.support.servers import s3


class TestFile(GateConformance):
    racers = 8
    rounds = 20

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "out.html"

    def make_gate(self) -> gates.File:
        return gates.File(self.path)

    def write(self, gate: Any, mark: Mark, content: bytes) -> None:
        gate.write(mark, content)

    def read(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None


class TestFolder(GateConformance):
    racers = 8
    rounds = 20

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "site"
        self.sources = tmp_path / "sources"

    def make_gate(self) -> gates.Folder:
        return gates.Folder(self.path)

    def write(self, gate: Any, mark: Mark, content: bytes) -> None:
        source = self.sources / os.urandom(4).hex()
        source.mkdir(parents=True)
        (source / "page").write_bytes(content)
        gate.publish(mark, source)

    def read(self) -> bytes | None:
        page = self.path / "page"
        return page.read_bytes() if page.exists() else None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as endpoint:
        yield endpoint


class TestObject(GateConformance):
    @pytest.fixture(autouse=True)
    def _place(self, endpoint: str) -> None:
        self.url = f"s3://bucket/{identity.new_id()}/out.html?endpoint={endpoint}"

    def make_gate(self) -> gates.Object:
        return gates.Object(self.url)

    def write(self, gate: Any, mark: Mark, content: bytes) -> None:
        gate.write(mark, content)

    def read(self) -> bytes | None:
        gate = gates.Object(self.url)
        return gate.read() if gate.key() else None
