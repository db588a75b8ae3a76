"""Steps and runs in one supervised process, against DBOS and against raw INSERTs, on SQLite and on PostgreSQL.

DBOS has an environment of its own, made here at the first time: it brings many packages. Every contestant works in
a fresh process with its own tables on the same disk or server; they take turns, and what counts is the ratio. Raw
INSERTs too begin with a fresh connection and are as many as the steps: SQLite's log is a new file then, and a file that
grows takes longer to flush, for everybody.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.servers.postgres import PostgresServer

from . import nightlatch_side, peers, timing
from .ledger import _TABLE, raw_postgres, raw_sqlite

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
STEPS, RUNS, LONG = 1000, 1000, 10_000

_HERE = Path(__file__).parent


def run() -> None:
    python = peers.environment("dbos", peers.DBOS)
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        _compare(
            "SQLite", python, Path(folder),
            lambda name: f"sqlite:///{folder}/{name}.db",
            lambda name: f"sqlite:///{folder}/dbos-{name}.db",
            lambda: raw_sqlite(f"{folder}/raw.db"),
        )  # fmt: skip
    server = PostgresServer(on_disk=True)
    try:
        server.psql(_TABLE)
        base = f"postgresql://postgres@127.0.0.1:{server.port}"

        def database(name: str) -> str:
            server.psql(f"CREATE DATABASE dbos_{name}")
            return f"{base}/dbos_{name}"

        with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
            os.environ["XDG_STATE_HOME"] = folder
            _compare("PostgreSQL", python, Path(folder), server.url, database, lambda: raw_postgres(server.url()))
    finally:
        server.remove()


def _compare(
    title: str,
    python: str,
    folder: Path,
    ours: Callable[[str], str],
    theirs: Callable[[str], str],
    raw: Callable[[], Callable[[], object]],
) -> None:
    print(f"\nIn one supervised process on {title}, against DBOS (by turns, median of {ROUNDS})")
    known: dict[str, str] = {}  # DBOS makes its tables at the first start: not counted
    rates: dict[str, list[tuple[float, ...]]] = {"steps": [], "map": [], "runs": [], "runs_beside": []}
    for number in range(ROUNDS):
        for what, count in (("steps", STEPS), ("map", STEPS), ("runs", RUNS), ("runs_beside", RUNS)):
            if what not in known:
                known[what] = theirs(what)
                _dbos(python, known[what], what, 10)
            mine = _nightlatch(folder, ours(f"ours_{what}"), what if what != "map" else "mapped", f"k{number}", count)
            rates[what].append((count / mine, count / _dbos(python, known[what], what, count), _rate(raw())))
    _show("steps, one by one (goal: 6 ×)", rates["steps"], raw=True)
    _show("a map of steps, 8 at a time", rates["map"], raw=True)
    _show(f"{RUNS} runs of one step, one by one (goal: 4 ×)", rates["runs"])
    _show("the same, 8 at a time", rates["runs_beside"])
    _resume(title, python, folder, ours("ours_resume"), theirs("resume"))


def _resume(title: str, python: str, folder: Path, ours: str, theirs: str) -> None:
    _nightlatch(folder, ours, "resumed", "long", LONG, ends=9)
    mine = _nightlatch(folder, ours, "resumed", "long", LONG)
    _dbos(python, theirs, "begin", LONG, STOP=str(LONG - 10))
    other = _dbos(python, theirs, "resume", LONG)
    print(
        f"  resume of {LONG} steps stopped at {LONG - 10:<18} {mine:9.3f} s   DBOS {other:9.3f} s   "
        f"{mine / other:5.3f} of its time (goal: 0.1)"
    )


def _show(what: str, rates: list[tuple[float, ...]], *, raw: bool = False) -> None:
    mine, theirs, inserts = (statistics.median(column) for column in zip(*rates, strict=True))
    ratio = statistics.median(a / b for a, b, _ in rates)
    against = statistics.median(a / c for a, _, c in rates)
    tail = f"   {against:5.2f} of {inserts:.0f} raw INSERTs/s (goal: 0.6)" if raw else ""
    print(f"  {what:<44} {mine:9.0f} /s   DBOS {theirs:9.0f} /s   {ratio:5.2f} ×{tail}")


def _nightlatch(folder: Path, store: str, job: str, key: str, count: int, ends: int = 0) -> float:
    file = folder / "took"
    os.environ.update(TOOK=str(file), NIGHTLATCH_STORE=store)
    said = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # the line of each finished run
        try:
            ended = getattr(nightlatch_side, job).run(key, count)
        finally:
            os.dup2(said, 2)
            os.close(said)
    assert ended.exit_code == ends, ended
    return 0.0 if ends else float(file.read_text())


def _dbos(python: str, url: str, what: str, count: int, **more: str) -> float:
    # -P: this very file is not to be imported in the place of the package of the same name.
    words = [python, "-P", str(_HERE / "dbos_side.py"), url, what, str(count)]
    ran = subprocess.run(words, env={**timing.environment(), **more}, text=True, capture_output=True, timeout=600)
    if "STOP" in more:
        assert ran.returncode == 9, ran.stderr
        return 0.0
    assert ran.returncode == 0, ran.stderr[-2000:]
    return float(json.loads(ran.stdout.splitlines()[-1]))


def _rate(insert: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(STEPS):
        insert()
    return STEPS / (time.perf_counter() - started)
