"""A module of Python jobs in a folder of its own, supervised from a fresh process each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.programs import environment

_PROGRAM = """
import nightlatch, nightly
try:
    v = nightly.{call}
    print(v.status, v.exit_code, v.reason)
except nightlatch.Error as error:
    print(type(error).__name__, error)
"""


class Jobs:
    def __init__(self, folder: Path, store: str, jobs: str) -> None:
        self.folder, self.store, self.out = folder, store, folder / "out"
        self.said = ""
        (folder / "nightly.py").write_text(jobs)
        self.out.touch()

    def run(self, call: str) -> str:
        """Supervise it once; returns the verdict's status, exit code and reason, or the error."""
        ran = subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(call=call)], env=environment(self.store, OUT=str(self.out)),
            cwd=self.folder, text=True, capture_output=True, timeout=120,
        )  # fmt: skip
        self.said = ran.stderr
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip().splitlines()[-1]

    @property
    def notes(self) -> list[str]:
        """What the jobs have written since the last look."""
        lines = self.out.read_text().splitlines()
        self.out.write_text("")
        return lines
