"""Leases on SQLite: against the raw statement, a bare interpreter, flock, and eight at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from nightlatch.store.url import connect
from nightlatch.system import identity

from . import timing

_RAW = """INSERT INTO lease(name, token, grant_id, exp) VALUES ('x', 1, 'g', 1)
ON CONFLICT(name) DO UPDATE SET token = token + 1, grant_id = 'g', exp = 1 RETURNING token"""


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        _cycle(folder)
        _commands(folder)
        _eight(folder)


def _cycle(folder: str) -> None:
    raw = sqlite3.connect(f"{folder}/raw.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("CREATE TABLE lease (name TEXT PRIMARY KEY, token INT, grant_id TEXT, exp INT)")
    store, holder = connect(f"sqlite:///{folder}/store.db"), identity.holder(pid=0)

    def raw_cycle() -> None:
        raw.execute(_RAW).fetchall()
        raw.execute("UPDATE lease SET grant_id = NULL WHERE name = 'x' AND grant_id = 'g'")

    def cycle() -> None:
        grant = identity.new_id()
        store.acquire("x", grant, holder, 60.0)
        store.release("x", grant)

    contestants = {"raw upsert + release, fsync each": raw_cycle, "store.acquire + store.release": cycle}
    rows = timing.in_turns({name: partial(timing.loop, action, 0.3) for name, action in contestants.items()}, 7)
    timing.show("A lease cycle on SQLite (goal: at most 1.5 ×)", rows, "raw upsert + release, fsync each")


def _commands(folder: str) -> None:
    env = timing.environment() | {"NIGHTLATCH_STORE": f"sqlite:///{folder}/commands.db", "LOGNAME": "bench"}
    here = Path(sys.executable).parent
    argv = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "nightlatch lock x -- true": [str(here / "nightlatch"), "lock", "x", "--", "true"],
        "flock -n f timeout 10 true": ["flock", "-n", f"{folder}/f", "timeout", "10", "true"],
    }
    contestants = {name: partial(timing.command, words, env) for name, words in argv.items()}
    timing.in_turns(contestants, 3)
    timing.show("Guarding a command (goal: at most 2.5 ×)", timing.in_turns(contestants, 40), "python -c pass")


_CONTEND = """
import sys, time, nightlatch
end = time.monotonic() + float(sys.argv[2])
waits = []
while time.monotonic() < end:
    started = time.monotonic()
    with nightlatch.lease(sys.argv[1], wait="60s"):
        waits.append(time.monotonic() - started)
print(len(waits), max(waits))
"""

_RAW_CONTEND = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("PRAGMA synchronous = FULL")
end = time.monotonic() + float(sys.argv[2])
waits = []
while time.monotonic() < end:
    started = time.monotonic()
    db.execute("UPDATE lease SET token = token + 1")
    waits.append(time.monotonic() - started)
print(len(waits), max(waits))
"""


def _eight(folder: str, seconds: float = 6.0) -> None:
    print("\nEight processes at once (goal: worst wait at most 10 × the fair turn)")
    env = timing.environment() | {"NIGHTLATCH_STORE": f"sqlite:///{folder}/eight.db"}
    for title, program, names in (
        ("raw SQLite, its own busy handler", _RAW_CONTEND, [f"{folder}/raw.db"] * 8),
        ("leases, one name", _CONTEND, ["x"] * 8),
        ("leases, a name each", _CONTEND, [f"x{i}" for i in range(8)]),
    ):
        started = time.monotonic()
        many = [
            subprocess.Popen([sys.executable, "-c", program, name, str(seconds)], env=env, text=True, stdout=-1)
            for name in names
        ]
        said = [each.communicate()[0].split() for each in many]
        turns, worst = [int(count) for count, _ in said], max(float(wait) for _, wait in said)
        fair = min(time.monotonic() - started, seconds) * 8 / sum(turns)
        print(
            f"  {title:<34} {sum(turns) / seconds:7.0f}/s   turns {min(turns)}–{max(turns)}   "
            f"worst wait {worst * 1000:7.1f} ms = {worst / fair:6.1f} × the fair turn"
        )


if __name__ == "__main__":
    os.environ.pop("NIGHTLATCH_STORE", None)
    timing.precompile()
    run()
