"""The pages at 1,000,000 runs, 200 jobs and 6,000,000 journal entries against 10,000 runs: each page, at the 95th
percentile, may take at most 1.5 times as long. And what `serve` takes with twenty run pages open, and whether a run's
own verbs are slower while pages are read: four pages a second. A visible tab asks again every 10 to 20 seconds, a
hidden one never, so twenty visible tabs read one or two a second.

The runs are those of `year`, which says how to set another size.
"""

from __future__ import annotations

import http.client
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.pages import PagesProcess, Session

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.opening import new_id
from nightlatch.web.draw import FOLDER
from nightlatch.web.made_up import MadeUp

from .year import stores

GOAL, GOAL_VERBS, GOAL_SLOW_VERBS = 1.5, 1.15, 1.5  # the last: at the 95th percentile, where a held lock would show
ROUNDS = 40
OPEN_PAGES = 20
READS = 4  # pages a second, while a run's verbs are measured
TURNS, TURN, PAUSE = 8, 3.0, 0.6  # seconds; of a turn the pause is not measured
HTML, ASSETS = 150, 45  # KB
MEMORY, CPU = 90.0, 2.0  # MB, per cent of a core


def run() -> None:
    for name, urls in stores().items():
        served = [PagesProcess(where) for where in urls]
        try:
            _pages(name, served)
            _assets()
            _open_pages(name, served[1])
            _verbs(name, served[1])
        finally:
            for one in served:
                one.end()


def _paths(ledger: Ledger) -> dict[str, str]:
    busy, rare_entries, long = (ledger.newest(job) for job in ("job007", "job150", "long"))
    assert busy and rare_entries and long
    return {
        "Now": "", "Jobs": "jobs", "a busy job": "job/job007", "a rare job": "job/job150",
        "a run": f"run/{busy.id}", "a run of 100,000 entries": f"run/{long.id}", "Night": "night", "Usage": "usage",
        "Leases": "leases", "Journal": "journal", "Journal of a job": "journal?job=job007",
        "Journal of a long run": f"journal?run={long.id}",
    }  # fmt: skip


def _pages(name: str, served: list[PagesProcess]) -> None:
    sessions = [one.session() for one in served]
    paths = [_paths(open_for(one.store)) for one in served]
    for page in paths[0]:
        cold = [_took(session, path[page])[0] for session, path in zip(sessions, paths, strict=True)]
        taken: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for place in (0, 1):
                taken[place].append(_took(sessions[place], paths[place][page])[0])
        small, large = (statistics.quantiles(one, n=20)[-1] for one in taken)
        size = _took(sessions[1], paths[1][page])[1] / 1024
        ratio = large / small
        good = ratio <= GOAL and size <= HTML
        print(
            f"  {name:<10} {page:<26} p95 {small * 1000:7.1f} ms {large * 1000:7.1f} ms  {ratio:5.2f}x  goal {GOAL}  "
            f"first {cold[1] * 1000:6.0f} ms  {size:4.0f} KB  {'ok' if good else 'MISSED'}",
            flush=True,
        )


def _took(session: Session, path: str) -> tuple[float, int]:
    began = time.perf_counter()
    status, _, text = session.get(path)
    assert status == 200, f"{path}: {status} {text[:300]}"
    return time.perf_counter() - began, len(text.encode())


def _assets() -> None:
    size = sum(os.path.getsize(os.path.join(FOLDER, "static", name)) for name in ("nightlatch.css", "nightlatch.js"))
    print(f"  CSS and JavaScript {size / 1024:.0f} KB  goal {ASSETS}  {'ok' if size / 1024 <= ASSETS else 'MISSED'}")


def _open_pages(name: str, pages: PagesProcess, seconds: float = 10.0) -> None:
    """Twenty tabs that watch a run which is at work and says nothing."""
    made, session = MadeUp(pages.store, time.time()), pages.session()
    run = made.open("watched", time.time(), "./watched.sh")
    made.seal(run, time.time())
    streams = [_stream(session, run.id) for _ in range(OPEN_PAGES)]
    pid = pages.process.pid
    time.sleep(1.0)
    before, began = _cpu(pid), time.perf_counter()
    time.sleep(seconds)
    share = (_cpu(pid) - before) / (time.perf_counter() - began) * 100
    memory = _memory(pid)
    for one in streams:
        one.close()
    good = share <= CPU and memory <= MEMORY
    print(f"  {name:<10} serve with {OPEN_PAGES} open run pages: {memory:.0f} MB (goal {MEMORY:.0f}), {share:.1f} % of "
          f"a core (goal {CPU:.0f})  {'ok' if good else 'MISSED'}", flush=True)  # fmt: skip


def _stream(session: Session, run: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", session.pages.port, timeout=30)
    path = f"/{session.pages.access.prefix}/run/{run}/events"
    connection.request("GET", path, None, {"Cookie": f"nightlatch={session.token}"})
    assert connection.getresponse().status == 200
    return connection


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """What belongs to it alone, and its share of the rest, in MB."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def _verbs(name: str, pages: PagesProcess) -> None:
    """The two take turns of seconds, each after the same pause, and are compared within a pair of turns: a few cycles
    of two milliseconds each say more about other programs on the machine than about the pages."""
    ledger, made = open_for(pages.store), MadeUp(pages.store, time.time())

    def one() -> float:
        began = time.perf_counter()
        run = ledger.open_run("verbs", new_id(), command="true", host="vm")
        writer = made.seal(run, time.time())
        writer.usage({}, usd=0.01)
        writer.finish(statuses.SUCCEEDED, exit_code=0, elapsed=1.0)
        return time.perf_counter() - began

    def turn() -> list[float]:
        taken, end = [], time.perf_counter() + TURN
        time.sleep(PAUSE)
        while time.perf_counter() < end:
            time.sleep(random.random() * 0.02)  # in no step with the reads
            taken.append(one())
        return taken

    pairs = []
    for _ in range(TURNS):
        alone = turn()
        with _readers(pages):
            pairs.append((alone, turn()))
    middle, slow = (
        statistics.median(at(beside) / at(alone) for alone, beside in pairs)
        for at in (statistics.median, lambda taken: statistics.quantiles(taken, n=20)[-1])
    )
    cycles = sum(len(beside) for _, beside in pairs)
    good = middle <= GOAL_VERBS and slow <= GOAL_SLOW_VERBS
    print(f"  {name:<10} a run's verbs while {READS} pages a second are read (20 visible tabs read one or two): "
          f"{middle:.2f}x  goal {GOAL_VERBS}, p95 {slow:.2f}x  goal {GOAL_SLOW_VERBS} ({cycles} runs)  "
          f"{'ok' if good else 'MISSED'}", flush=True)  # fmt: skip


_READER = """
import http.client, sys, time
port, prefix, token, rate, *paths = sys.argv[1:]
while True:
    for path in paths:
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", int(port))
        connection.request("GET", f"/{prefix}/{path}", headers={"Cookie": f"nightlatch={token}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, (path, answer.status)
        connection.close()
        time.sleep(max(began + 1 / float(rate) - time.monotonic(), 0))
"""


@contextmanager
def _readers(pages: PagesProcess) -> Iterator[None]:
    """Every page that asks again by itself while it is visible, one after the other, at a fixed rate."""
    session = pages.session()
    words = [sys.executable, "-c", _READER, str(pages.port), pages.access.prefix, session.token, str(READS)]
    process = subprocess.Popen([*words, "", "jobs", "leases", "job/job007"])
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
