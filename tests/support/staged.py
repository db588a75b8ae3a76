"""A job of nightlatch.toml that is looked at by `tick` whenever a test wants, on a clock that the test does not wait for:
its schedule has a slot a second."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from nightlatch.core.row import Row
from nightlatch.ledger import open_for
from nightlatch.ledger.records import RunRow
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.store import url
from nightlatch.testing.expect import until
from tests.support.programs import nightlatch


class Staged:
    """The job `articles` of a file in `folder`, with its store."""

    def __init__(self, store: str, folder: Path, env: dict[str, str] | None = None, **keys: Any) -> None:
        self.store, self.folder, self.env = store, folder, env or {}
        self.keys = {"schedule": "every 1s", "timeout": "1m", "stage": "supervised"} | keys
        self.write()

    def write(self, **keys: Any) -> None:
        self.keys |= keys
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.keys.items() if value is not None]
        (self.folder / "nightlatch.toml").write_text("\n".join(["[jobs.articles]", *lines, ""]))

    def __call__(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        more.setdefault("cwd", self.folder)
        return nightlatch(self.store, *words, env={**self.env, **more.pop("env", {})}, **more)

    def ok(self, *words: str, **more: Any) -> str:
        done = self(*words, **more)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @property
    def row(self) -> Row:
        found = read_row(url.connect(self.store), "articles")
        assert found
        return found

    @property
    def runs(self) -> list[RunRow]:
        """The newest change first."""
        return list(open_for(self.store).history.runs(job="articles"))

    def tick_until_ended(self) -> RunRow:
        """Look until a slot was claimed, and its run has ended or waits."""
        before = {run.id: run.changed for run in self.runs}

        def ticked() -> list[RunRow]:
            self.ok("tick")
            return [run for run in self.runs if before.get(run.id) != run.changed]

        until(lambda: bool(ticked()), 30, "a slot was started")
        return self.runs[0]

    def hold(self) -> RunRow:
        """Have a slot wait for an approval."""
        run = self.tick_until_ended()
        assert run.status == "waiting" and run.held is not None, run
        return run

    def stage(self) -> str:
        return self.row.stage
