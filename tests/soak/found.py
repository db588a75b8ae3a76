"""What a course came to: one row of the table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Found:
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0  # ended without a word, or in doubt: both are right, there or not, but never twice
    notes: Counter[str] = field(default_factory=Counter)  # errors and exit codes that callers met
    violations: list[str] = field(default_factory=list)

    def __add__(self, other: Found) -> Found:
        return Found(
            self.faults + other.faults,
            self.acknowledged + other.acknowledged,
            self.refused + other.refused,
            self.unknown + other.unknown,
            self.notes + other.notes,
            self.violations + other.violations,
        )

    def save(self, path: Path) -> None:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(vars(self)))
        new.rename(path)

    @staticmethod
    def load(path: Path) -> Found:
        report = json.loads(path.read_text())
        return Found(**{**report, "faults": Counter(report["faults"]), "notes": Counter(report["notes"])})


def crashes(files: Iterable[Path]) -> list[str]:
    """An error that has no sentence of its own, in what programs said."""
    found = []
    for file in files:
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("Traceback"):
                ends = (after for after in lines[number + 1 :] if not after.startswith(" "))
                found.append(f"{file.name} has a traceback: {next(ends, '')}")
    return found
