"""The scheduler: many slots due in one second, many runs to their last verdict, a long history, many jobs at rest."""

from __future__ import annotations

import gc
import itertools
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from nightlatch.cli.main import _GC_THRESHOLD
from nightlatch.core.job import Job
from nightlatch.core.row import RAN, SlotRecord
from nightlatch.core.statuses import SUCCEEDED
from nightlatch.core.target import Command
from nightlatch.ledger import open_for
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.scheduler.clocks import Clocks
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.scheduler.scheduler import Scheduler
from nightlatch.store import url
from nightlatch.system import identity

from . import peers, timing

DUE = int(os.environ.get("NIGHTLATCH_DUE", "1000"))  # slots in one second
RUNS = int(os.environ.get("NIGHTLATCH_RUNS", "200"))
_TURNS = int(os.environ.get("NIGHTLATCH_TURNS", "3"))
JOBS = int(os.environ.get("NIGHTLATCH_JOBS", "10000"))
_REST = float(os.environ.get("NIGHTLATCH_REST", "20"))


def run() -> None:
    gc.set_threshold(_GC_THRESHOLD)  # as the command line has it
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        _due_at_once(folder)
        _to_the_last_verdict(folder)
        _history(folder)
        _at_rest(folder)


def job(name: str, every: str) -> Job:
    return Job(name=name, target=Command(words=("true",)), schedule=(f"every {every}",), tz="UTC", timeout=60.0)


class Bench:
    """A scheduler on SQLite whose starts are only noted."""

    def __init__(self, path: str, jobs: list[Job], start: Callable[..., None]) -> None:
        self.store, self.ledger = url.connect(f"sqlite:///{path}"), open_for(f"sqlite:///{path}")
        self.scheduler = Scheduler(
            self.store, self.ledger, host="bench", at_once=10**6, clocks=Clocks(), new_id=identity.new_id, start=start
        )
        self.scheduler.serve({one.name: Scheduled(one, "d") for one in jobs})
        self.pause = self.scheduler.look()


# ── due at once ──


def _due_at_once(folder: str) -> None:
    rounds = 3
    late: dict[str, list[float]] = {
        "APScheduler 3, in memory": [],
        "APScheduler 3, SQLite": [],
        "nightlatch, SQLite": [],
    }
    for turn in range(rounds):
        late["APScheduler 3, in memory"].append(_apscheduler(""))
        late["APScheduler 3, SQLite"].append(_apscheduler(f"sqlite:///{folder}/aps-{turn}.db"))
        late["nightlatch, SQLite"].append(_ours(f"{folder}/due-{turn}.db"))
    medians = {name: statistics.median(times) for name, times in late.items()}
    timing.show(
        f"p99 lateness of {DUE} slots due in one second, starts left out, ours journaled with fsync "
        f"(goal: at most 1.0 of memory, 0.25 of SQLite)",
        medians, "APScheduler 3, in memory",
    )  # fmt: skip
    print(f"  of APScheduler's SQLite: {medians['nightlatch, SQLite'] / medians['APScheduler 3, SQLite']:.2f} ×")
    _beside(folder, medians["nightlatch, SQLite"])


def _beside(folder: str, ours: float) -> None:
    """Peers without a goal, once each: in their own environments, ended after two minutes."""
    fewer = DUE // 5  # DBOS has a thread for each schedule
    print("  beside them, once each; DBOS begins each up to a tenth of its wait later on purpose:")
    for name, wanted, what, database, count in (
        ("APScheduler 4.0.0a6, in memory", peers.APSCHEDULER_4, "apscheduler", "memory", DUE),
        (f"DBOS, SQLite, {fewer} slots", peers.DBOS, "dbos", f"sqlite:///{folder}/dbos.db", fewer),
    ):
        # -P: the folder of this very file is not to be searched for the peer's package.
        side = [peers.environment(what, wanted), "-P", str(Path(__file__).parent / "scheduler_side.py")]
        words = [*side, what, database, str(count)]
        try:
            ran = subprocess.run(words, env=timing.environment(), text=True, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            print(f"  {name:<46} not all had begun after 120 s")
            continue
        assert ran.returncode == 0, ran.stderr[-2000:]
        late = _p99(json.loads(ran.stdout.splitlines()[-1]))
        print(f"  {name:<46} {late * 1000:9.3f} ms   ours {ours / late:6.2f} × of it")


def _ours(path: str) -> float:
    late: list[float] = []
    bench = Bench(
        path,
        [job(f"job-{place}", "5s") for place in range(DUE)],
        lambda _, claim: late.append(time.time() - claim.slot),
    )
    pause = bench.pause
    while len(late) < DUE:  # as `serve` does
        time.sleep(pause)
        pause = bench.scheduler.look()
    bench.store.close()
    return _p99(late)


def _apscheduler(database: str) -> float:
    from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]

    stores: dict[str, Any] = {}
    if database:
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-untyped]

        stores = {"default": SQLAlchemyJobStore(url=database)}
    import datetime

    LATE.clear()
    scheduler = BackgroundScheduler(jobstores=stores, timezone="UTC")
    scheduler.start(paused=True)
    at = float(int(time.time()) + 5 + (DUE // 25 if database else 0))  # to add a job takes a commit there
    when = datetime.datetime.fromtimestamp(at, datetime.UTC)
    for _ in range(DUE):
        scheduler.add_job(note, "interval", hours=1, start_date=when, args=[at], misfire_grace_time=600)
    assert time.time() < at, "the jobs were not there in time"
    scheduler.resume()
    while len(LATE) < DUE:
        time.sleep(0.05)
    scheduler.shutdown()
    return _p99(LATE)


LATE: list[float] = []


def note(at: float) -> None:
    LATE.append(time.time() - at)


def _p99(late: list[float]) -> float:
    return sorted(late)[int(len(late) * 0.99) - 1]


# ── to the last verdict ──


def _to_the_last_verdict(folder: str) -> None:
    """By turns: this machine's speed changes from minute to minute, so each batch of served runs is compared with the
    cold runs and the spawns right before and after it."""
    beside, served = [_beside_served(folder, 0)], []
    for turn in range(1, _TURNS + 1):
        served.append(_served(folder, turn))
        beside.append(_beside_served(folder, turn))
    around = [{name: (one[name] + other[name]) / 2 for name in one} for one, other in itertools.pairwise(beside)]
    medians = {name: statistics.median(times[name] for times in around) for name in _BESIDE_SERVED}
    timing.show(
        f"{RUNS} due `true` jobs to the last verdict, for each of them, median of {_TURNS} turns (goal: at most 5 ×, "
        f"and a quarter of cold runs; the long form: NIGHTLATCH_RUNS=1000)",
        medians | {"nightlatch serve": statistics.median(served)}, _SPAWN,
    )  # fmt: skip
    for what, name in (("cold runs", _COLD), (_SPAWN, _SPAWN)):
        ratios = sorted(ours / times[name] for ours, times in zip(served, around, strict=True))
        print(f"  of {what}: {statistics.median(ratios):.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})")


_SPAWN, _COLD = _BESIDE_SERVED = "spawn `true` and 5 raw commits", "cold `nightlatch run`"


def _beside_served(folder: str, turn: int) -> dict[str, float]:
    """Seconds of what served runs are compared with."""
    env = timing.environment() | {
        "NIGHTLATCH_STORE": f"sqlite:///{folder}/cold.db",
        "XDG_STATE_HOME": f"{folder}/state",
    }
    words = [str(Path(sys.executable).parent / "nightlatch"), "run", "x", "--new", "--", "true"]
    cold = timing.in_turns({"cold": lambda: timing.command(words, env)}, 10)["cold"]
    return {_SPAWN: _spawn_and_commit(f"{folder}/raw-{turn}.db", 50), _COLD: cold}


def _spawn_and_commit(path: str, count: int) -> float:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE t (x)")
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["true"], check=True)
        for _ in range(5):
            database.execute("INSERT INTO t VALUES (1)")
    return (time.perf_counter() - began) / count


def _served(folder: str, turn: int) -> float:
    """Seconds a run, from when all slots were due until the last of them had its verdict."""
    place = Path(folder) / f"served-{turn}"
    place.mkdir()
    at = int(time.time()) + 6 + RUNS // 150  # enough for serve to read the file and make the rows
    lines = [f'store = "sqlite:///{place}/state.db"', f"at_once = {2 * (os.cpu_count() or 1)}"]
    for number in range(RUNS):
        lines += [f"[jobs.job-{number}]", f'schedule = "every {at}s"', 'command = ["true"]', 'timeout = "5m"']
    (place / "nightlatch.toml").write_text("\n".join(lines))
    env = timing.environment() | {"XDG_STATE_HOME": f"{folder}/state"}
    words = [str(Path(sys.executable).parent / "nightlatch"), "serve", "--config", str(place / "nightlatch.toml")]
    log = place / "state.db.d" / "runs.log"
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL, cwd=place) as serving:
        try:
            while not log.exists() or log.read_bytes().count(b"\n") < RUNS:
                time.sleep(0.02)
        finally:
            serving.terminate()
    return (log.stat().st_mtime - at) / RUNS


# ── a long history ──


def _history(folder: str) -> None:
    claims = {
        name: _claim_after(f"{folder}/history-{slots}.db", slots)
        for name, slots in (("a week of */5", 7 * 288), ("a year of */5", 365 * 288))
    }
    timing.show("A claim after (goal: at most 1.5 × one after a week)", claims, "a week of */5")


def _claim_after(path: str, slots: int) -> float:
    taken: list[float] = []
    claimed: list[Claimed] = []
    bench = Bench(path, [job("job", "1s")], lambda one, claim: claimed.append(Claimed(one.start(claim), claim.id)))
    now = time.time()
    records = [
        SlotRecord(first=now - 300 * n, last=now - 300 * n, outcome=RAN, run=f"r{n}") for n in range(1, slots + 1)
    ]
    for begin in range(0, slots, 10_000):
        bench.ledger.slots.put(("job", record) for record in records[begin : begin + 10_000])
    for _ in range(11):
        time.sleep(1.0 - time.time() % 1)
        began = time.perf_counter()
        bench.scheduler.look()
        taken.append(time.perf_counter() - began)
        claimed.pop().end(bench.store, bench.ledger, SUCCEEDED, ran=True, run="r")
    bench.store.close()
    return statistics.median(taken)


# ── at rest ──


def _at_rest(folder: str) -> None:
    print(
        f"\nAt rest for {_REST:.0f} s, without the pages (goal: 10,000 jobs under 0.5 % of a CPU; 50 jobs under 45 MB "
        f"with the process that supervisors are forked from)"
    )
    for count in (50, JOBS):
        place = Path(folder) / f"rest-{count}"
        place.mkdir()
        lines = [f'store = "sqlite:///{place}/state.db"']
        for number in range(count):
            lines += [f"[jobs.job-{number}]", 'schedule = "0 2 1 * *"', 'command = ["true"]', 'timeout = "5m"']
        (place / "nightlatch.toml").write_text("\n".join(lines))
        nightlatch = str(Path(sys.executable).parent / "nightlatch")
        words = [nightlatch, "serve", "--no-pages", "--config", str(place / "nightlatch.toml")]
        with subprocess.Popen(words, env=timing.environment(), stderr=subprocess.DEVNULL, cwd=place) as serving:
            try:
                while _rows(place / "state.db") < count:
                    time.sleep(0.5)
                time.sleep(5)  # what it does at its start is not what it does at rest
                processes = [serving.pid, *_children(serving.pid)]
                before = sum(map(_used, processes))
                time.sleep(_REST)
                used = (sum(map(_used, processes)) - before) / _REST
                resident, memory = (sum(_memory(pid, kind) for pid in processes) for kind in ("Rss:", "Pss:"))
            finally:
                serving.terminate()
        print(
            f"  {count:>6} jobs   CPU {100 * used:6.3f} %   {resident / 1000:6.1f} MB (PSS {memory / 1000:.1f} MB), "
            f"{len(processes)} processes"
        )


def _rows(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM job").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # it is not made yet


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int, kind: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(kind)))
