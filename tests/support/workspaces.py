"""Runs of one job in a workspace, and what they left."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from nightlatch.ledger import open_for
from tests.support.programs import nightlatch


def run(store: str, *words: str, command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return nightlatch(store, "run", "job", *words, "--", "sh", "-c", command, **more)


def workspaces(store: str) -> list[Path]:
    home = Path(f"{store.removeprefix('sqlite:///')}.d") / "workspaces"
    return sorted(home.iterdir()) if home.exists() else []


def journal(store: str, key: str) -> list[tuple[str, dict[str, str]]]:
    ledger = open_for(store)
    found = ledger.find("job", key)
    assert found
    return [(entry.kind, entry.facts) for entry in ledger.journal.of_run(found.id)]
