"""Steps: durable checkpoints against raw INSERTs, resuming a run, and a million items of which most are done.

A checkpoint does more than an INSERT: it checks token, grant and head, advances the run's row, chains a hash and
puts the step's row into two indexes. Contestants take turns; what counts is the ratio.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nightlatch.ledger import kinds, open_for
from nightlatch.ledger.items import ITEM
from nightlatch.runtime.shared.batches.items import Digest
from nightlatch.runtime.shared.batches.template import Template
from nightlatch.system import identity

from . import timing
from .ledger import raw_sqlite

ROUNDS, SECONDS = 5, 1.0
TOGETHER = 100
ITEMS = int(os.environ.get("BENCH_ITEMS", "1000000"))
KEY = "{site}/{slug}"


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        _rates(Path(folder))
        _resume(Path(folder))
        _million(Path(folder))


class _Steps:
    """A run that checkpoints `together` steps at a time."""

    def __init__(self, url: str, together: int) -> None:
        book = open_for(url)
        opened = book.open_run("bench", identity.new_id())
        self._writer = book.seal(opened.id, token=1, grant=identity.new_id(), holder=identity.holder(pid=0))
        self._run, self._together, self._next = opened.id, together, 0

    def __call__(self) -> None:
        first, self._next = self._next, self._next + self._together
        names = [f"{self._run}/{number}" for number in range(first, self._next)]
        rows = [("bench", identity.new_id(), name, "done", 1, self._run, 1, 0, "", "", 0) for name in names]
        self._writer.record(kinds.ITEMS_MOVED, [(ITEM, rows)], done="\n".join(names))


def _rates(folder: Path) -> None:
    raw = raw_sqlite(f"{folder}/raw.db")
    one, many = (_Steps(f"sqlite:///{folder}/steps.db", together) for together in (1, TOGETHER))
    taken: dict[str, list[float]] = {"raw": [], "one": [], "many": []}
    for _ in range(ROUNDS):
        taken["raw"].append(timing.loop(raw, SECONDS))
        taken["one"].append(timing.loop(one, SECONDS))
        taken["many"].append(timing.loop(many, SECONDS) / TOGETHER)
    raw_rate, one_rate, many_rate = (1 / statistics.median(times) for times in taken.values())
    print("\nDurable steps on SQLite (goal: at least 0.6 of raw INSERTs)")
    print(f"  raw INSERT, each on the disk                {raw_rate:9.0f} /s")
    print(f"  one step, on the disk when it returns       {one_rate:9.0f} /s   {one_rate / raw_rate:6.2f} of raw")
    print(
        f"  {TOGETHER} that came together                     {many_rate:9.0f} /s   {many_rate / raw_rate:6.2f} of raw"
    )


def _resume(folder: Path) -> None:
    ledger = _filled(f"{folder}/resume", 9_990)
    started = time.perf_counter()
    found = sum(1 for _ in open_for(ledger).items.digests("big", "done"))
    print(f"\nResuming a run of 10,000 steps: {found} done ones are known after {time.perf_counter() - started:.3f} s")


def _million(folder: Path) -> None:
    done = ITEMS - ITEMS // 1000
    store = _filled(f"{folder}/big", done)
    items = folder / "items.jsonl"
    with items.open("w") as file:
        for number in range(ITEMS):
            file.write(json.dumps({"site": "example.org", "slug": f"article-{number}"}) + "\n")
    program = [
        sys.executable,
        "-m",
        "nightlatch",
        "batch",
        "big",
        str(items),
        "--key",
        KEY,
        "--fail-fast",
        "--",
        "false",
    ]
    started = time.perf_counter()
    subprocess.run(
        program, env=timing.environment() | {"NIGHTLATCH_STORE": store}, stderr=subprocess.DEVNULL, check=False
    )
    taken = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    print(f"\nA batch of {ITEMS:,} items, {done:,} of them done (goal: below 10 s and 200 MB)")
    print(f"  start to end of the first unfinished one    {taken:9.2f} s   {peak:6.0f} MB in its largest process")


def _filled(place: str, count: int) -> str:
    """A store whose ledger has `count` done items of the batch `big`."""
    url = f"sqlite:///{place}.db"
    assert open_for(url).id  # makes the tables
    digest = Digest(Template(KEY))
    names = (f"article-{number}" for number in range(count))
    rows = ((digest({"site": "example.org", "slug": name}).hex(), f"example.org/{name}") for name in names)
    connection = sqlite3.connect(f"{place}-ledger.db")
    with connection:
        connection.executemany("INSERT INTO item VALUES ('big', ?, ?, 'done', 1, '', 1, 0, '', '', 0)", rows)
    connection.close()
    return url
