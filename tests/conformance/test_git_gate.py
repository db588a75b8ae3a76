"""A git branch keeps every promise of a gate."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.testing import GateConformance
from tests.support.clones import clone, commit
from tests.support.servers.git import git_repository


class TestGitBranch(GateConformance):
    racers = 3
    rounds = 2

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        self.root = tmp_path
        self.remote = git_repository(tmp_path / "site.git")
        self.numbers = itertools.count()

    def make_gate(self) -> gates.Git:
        return gates.Git(str(self.remote), "main")

    def write(self, gate: gates.Git, mark: Mark, content: bytes) -> None:
        """From a new clone each time, as on a machine that has just begun."""
        folder = clone(self.remote, self.root / f"clone-{next(self.numbers)}")
        commit(folder, "page", content)
        gate.push(mark, folder=str(folder))

    def read(self) -> bytes | None:
        found = subprocess.run(["git", "-C", self.remote, "log", "-p", "main"], capture_output=True)
        page = subprocess.run(["git", "-C", self.remote, "show", "main:page"], capture_output=True)
        return found.stdout + page.stdout if found.returncode == 0 else None
