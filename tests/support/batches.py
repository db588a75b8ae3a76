"""Items for a batch, and a command that writes down which of them it did."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.programs import kill_all, start, until

DO = ("sh", "-c", 'echo "$1" >> "$0"')


def jsonl(folder: Path, *items: object, name: str = "items.jsonl") -> str:
    path = folder / name
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items))
    return str(path)


def ids(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


def killed_in_flight(store: str, tmp_path: Path, acts: Path) -> str:
    """A batch of three, killed with its whole tree in the middle of the second."""
    items = jsonl(tmp_path, *ids(1, 2, 3))
    script = 'echo "$1" >> "$0"; [ "$1" != 2 ] || sleep 600'
    words = ("batch", "b", items, "--key", "{id}", "--", "sh", "-c", script, str(acts), "{id}")
    mark = os.urandom(8).hex()
    batch = start(store, *words, env={"MARK": mark})
    until(lambda: "2" in acts.read_text())
    kill_all(mark)
    batch.communicate()
    return items
