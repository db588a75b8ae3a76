"""What it costs that a run waits for an approval: to its verdict, and to publish it afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from . import timing

_ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "10"))
_FILE = """
[jobs.page]
schedule = "every 1s"
command = "echo page > page"
workspace = "scratch"
publish = ["page={folder}/out"]
stage = "{stage}"
"""


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        jobs = {stage: _Job(Path(folder) / stage, stage) for stage in ("unattended", "supervised")}
        for job in jobs.values():
            job.call("tick")  # the store is made, and its first slot awaited
        approving: list[float] = []
        publishing: list[float] = []

        def held() -> float:
            taken = jobs["supervised"].due("tick")
            approving.append(jobs["supervised"].call("approve", "page", "--yes"))
            publishing.append(jobs["unattended"].call("run", "page", "--new"))
            return taken

        slots = timing.in_turns({"unheld": lambda: jobs["unattended"].due("tick"), "held": held}, _ROUNDS)
        timing.show("A slot to its verdict (goal: held at most 1.3 ×)", slots, "unheld")
        middle = len(approving) // 2
        rows = {"run, with its publish": sorted(publishing)[middle], "approve": sorted(approving)[middle]}
        timing.show("To publish it (goal: approve at most 1.5 ×)", rows, "run, with its publish")


class _Job:
    def __init__(self, folder: Path, stage: str) -> None:
        folder.mkdir()
        (folder / "nightlatch.toml").write_text(_FILE.format(folder=folder, stage=stage))
        named = {"NIGHTLATCH_STORE": f"sqlite:///{folder}/store.db", "NIGHTLATCH_CONFIG": f"{folder}/nightlatch.toml"}
        self._env = timing.environment() | named

    def due(self, *words: str) -> float:
        """Just after a slot."""
        time.sleep(1.05 - time.time() % 1)
        return self.call(*words)

    def call(self, *words: str) -> float:
        return timing.command([sys.executable, "-P", "-m", "nightlatch", *words], self._env)
