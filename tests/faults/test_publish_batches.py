"""kill -9 of a whole batch that publishes, at random moments: every item lands, and none is published twice.

NIGHTLATCH_ROUNDS=300 makes it a long one.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from nightlatch.ledger import open_for
from tests.support.programs import kill_all, nightlatch, start

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "12"))
KEYS = int(os.environ.get("NIGHTLATCH_KEYS", "40"))


def test_what_has_landed_stays_as_it_landed(sqlite_url, tmp_path):
    out, items, chance = tmp_path / "out", tmp_path / "items.jsonl", random.Random()
    items.write_text("".join(json.dumps({"slug": f"page-{number}"}) + "\n" for number in range(KEYS)))
    write = ("sh", "-c", 'echo "{slug} by $$ at $(date +%s.%N)" > page')
    words = ("batch", "b", str(items), "--key", "{slug}", "-j", "3", "--publish", f"page={out}/{{slug}}", "--", *write)
    landed: dict[str, str] = {}
    kills = 0
    for _ in range(ROUNDS):
        mark = os.urandom(8).hex()
        process = start(sqlite_url, *words, env={"MARK": mark}, start_new_session=True)
        until = time.monotonic() + chance.uniform(0.1, 0.9)
        while time.monotonic() < until and process.poll() is None:
            time.sleep(0.005)
        kills += process.poll() is None
        kill_all(mark)
        process.communicate()
        landed = seen(out, landed)
    done = nightlatch(sqlite_url, *words, timeout=170)
    assert done.returncode == 0, done.stderr
    landed = seen(out, landed)
    assert sorted(landed) == sorted(f"page-{number}" for number in range(KEYS))
    assert all(content.startswith(f"{name} by ") for name, content in landed.items())
    assert not open_for(sqlite_url).journal.verify().breaks
    print(f"{kills} kills of an unfinished batch, {len(landed)} items, each published once")


def seen(out: Path, before: dict[str, str]) -> dict[str, str]:
    """What has landed by now; and it is as it was when it was first seen."""
    now = {path.name: path.read_text() for path in out.glob("page-*")} if out.exists() else {}
    assert {name: now[name] for name in before} == before, "an item was published a second time"
    return now
