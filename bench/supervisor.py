"""What a run costs beside its command: to start and end it, and while nothing happens."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.support.servers.postgres import PostgresServer

from . import timing

_REST = float(os.environ.get("NIGHTLATCH_REST", "60"))  # seconds of watching a supervisor that has nothing to do


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        env = timing.environment() | {"LOGNAME": "bench", "XDG_STATE_HOME": f"{folder}/state"}
        _command(env | {"NIGHTLATCH_STORE": f"sqlite:///{folder}/store.db"})
        server = PostgresServer()
        try:
            print(f"\nSupervisor and warden, while it sleeps for {_REST:.0f} s (goal: 40 MB of RSS, 0.2 % of a CPU)")
            _at_rest(env | {"NIGHTLATCH_STORE": f"sqlite:///{folder}/store.db"}, "SQLite")
            _at_rest(env | {"NIGHTLATCH_STORE": server.url("bench")}, "PostgreSQL, with its driver")
        finally:
            server.remove()


def _command(env: dict[str, str]) -> None:
    argv = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "nightlatch run x -- true": [_nightlatch(), "run", "x", "--new", "--", "true"],
    }
    contestants = {name: partial(timing.command, words, env) for name, words in argv.items()}
    timing.in_turns(contestants, 3)
    timing.show("A supervised command (goal: at most 4 ×)", timing.in_turns(contestants, 40), "python -c pass")


def _at_rest(env: dict[str, str], store: str) -> None:
    words = [_nightlatch(), "run", "y", "--timeout", "1h", "--", "sleep", "3600"]
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL) as running:
        try:
            while not (_children(running.pid) and _children(_children(running.pid)[0])):
                time.sleep(0.05)
            time.sleep(2)  # what it does at its start is not what it does at rest
            both = {"supervisor": running.pid, "warden": _children(running.pid)[0]}
            before = {one: _used(pid) for one, pid in both.items()}
            time.sleep(_REST)
            used = {one: _used(pid) - before[one] for one, pid in both.items()}
            rows: dict[str, tuple[float, ...]] = {one: (*_memory(pid), used[one]) for one, pid in both.items()}
        finally:
            running.terminate()
    rows["together"] = tuple(a + b for a, b in zip(*rows.values(), strict=True))
    print(f"  {store}")
    for one, (rss, pss, seconds) in rows.items():
        print(f"    {one:<12} RSS {rss / 1000:6.1f} MB   PSS {pss / 1000:6.1f} MB   CPU {seconds / _REST * 100:6.3f} %")


def _used(pid: int) -> float:
    """Seconds on a CPU, user and system, all threads: in nanoseconds where the kernel counts so, else in ticks."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> tuple[float, float]:
    """(resident memory, the same with each shared page divided among its processes), in kB."""
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    sizes = {words[0]: float(words[1]) * 1.024 for words in lines if words[0] in ("Rss:", "Pss:")}
    return sizes["Rss:"], sizes["Pss:"]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _nightlatch() -> str:
    return str(Path(sys.executable).parent / "nightlatch")


if __name__ == "__main__":
    timing.precompile()
    run()
