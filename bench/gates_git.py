"""A push through the git gate against a bare `git push` of the same kind of commit, in turns, in one run."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from nightlatch import gates
from nightlatch.core.model import Mark

from . import timing

ROUNDS = 25


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as name:
        root = Path(name)
        os.environ["XDG_STATE_HOME"] = str(root / "state")
        bare, gated = _Work(root, "bare"), _Work(root, "gated")
        gate = gates.Git(f"file://{root}/gated.git", "main")
        mark = Mark(store="bench", name="bench", token=1, grant="bench")
        gate.seal(mark, "bench")

        def through_the_gate() -> float:
            gated.commit()
            started = time.perf_counter()
            gate.push(mark, folder=str(gated.folder))
            return time.perf_counter() - started

        def bare_push() -> float:
            bare.commit()
            started = time.perf_counter()
            bare.git("push", "--quiet", "origin", "HEAD:main")
            return time.perf_counter() - started

        rows = timing.in_turns({"git push": bare_push, "through the gate": through_the_gate}, ROUNDS)
        timing.show("Pushing a commit (goal: at most 1.3 ×)", rows, "git push")


class _Work:
    """A clone with one commit pushed, and its bare remote."""

    def __init__(self, root: Path, name: str) -> None:
        self.folder = root / name
        subprocess.run(["git", "init", "--quiet", "--bare", root / f"{name}.git"], check=True)
        subprocess.run(["git", "clone", "--quiet", f"file://{root}/{name}.git", self.folder], check=True, stderr=-3)
        self.number = 0
        self.commit()
        self.git("push", "--quiet", "origin", "HEAD:main")

    def commit(self) -> None:
        self.number += 1
        (self.folder / "page").write_text(f"{self.number}\n")
        self.git("add", "page")
        self.git("commit", "--quiet", "-m", f"page {self.number}")

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        subprocess.run(["git", "-C", self.folder, *who, *words], check=True)
