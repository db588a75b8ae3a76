"""What it costs that a run waits for an approval, to its verdict and to publish it afterwards; and what a ping does."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from nightlatch.ledger import open_for

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
        with socket.create_server(("127.0.0.1", 0)) as hanging:  # nobody accepts
            pinged = _Job(Path(folder) / "pinged", "unattended", f"http://127.0.0.1:{hanging.getsockname()[1]}/x")
            elapsed = {"no ping": jobs["unattended"].elapsed, "a ping that hangs": pinged.elapsed}
            timing.show("A run's elapsed time (goal: 50 ms more)", timing.in_turns(elapsed, _ROUNDS), "no ping")


class _Job:
    def __init__(self, folder: Path, stage: str, ping: str = "") -> None:
        folder.mkdir()
        text = _FILE.format(folder=folder, stage=stage) + (f'ping = "{ping}"\n' if ping else "")
        (folder / "nightlatch.toml").write_text(text)
        named = {"NIGHTLATCH_STORE": f"sqlite:///{folder}/store.db", "NIGHTLATCH_CONFIG": f"{folder}/nightlatch.toml"}
        self._env = timing.environment() | named

    def due(self, *words: str) -> float:
        """Just after a slot."""
        time.sleep(1.05 - time.time() % 1)
        return self.call(*words)

    def elapsed(self) -> float:
        """Of a run by hand, as its verdict has it."""
        self.call("run", "page", "--new")
        return next(iter(open_for(self._env["NIGHTLATCH_STORE"]).history.runs(job="page", limit=1))).elapsed or 0.0

    def call(self, *words: str) -> float:
        return timing.command([sys.executable, "-P", "-m", "nightlatch", *words], self._env)
