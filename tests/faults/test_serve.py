"""Schedulers as real processes: one, several, killed, stopped; each slot has one outcome."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch.core import row as rows
from nightlatch.core.schedule import name_of, named
from nightlatch.system import clock
from nightlatch.testing.expect import until
from tests.support.git_remote import Remote
from tests.support.programs import environment
from tests.support.scheduling import accounts

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("NIGHTLATCH_SECONDS", "4"))


class Daemons:
    def __init__(self, store: str, folder: Path, jobs: dict[str, Any]) -> None:
        self.store, self.folder, self._jobs = store, folder, jobs
        self.processes: list[subprocess.Popen[bytes]] = []
        self.homes: list[Path] = []  # where each machine has a ledger of its own: they take turns

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        if self.homes:
            env["XDG_STATE_HOME"] = str(self.homes[len(self.processes) % len(self.homes)])
        words = [sys.executable, "-m", "tests.support.scheduling.daemon", self.store, json.dumps(self._jobs)]
        with open(self.folder / f"daemon-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(words, cwd=ROOT, env=environment(self.store, **env), stderr=log, stdout=log)
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def done(self, job: str) -> list[tuple[int, str]]:
        """The slots that the job's command has written down, each with the token of the attempt."""
        path = self.folder / job
        lines = path.read_text().splitlines() if path.exists() else []
        return [(named(slot), token) for slot, _, token in (line.partition(" ") for line in lines)]


def noting(folder: Path, job: str, then: str = "") -> list[str]:
    return ["sh", "-c", f"echo $NIGHTLATCH_SLOT $NIGHTLATCH_TOKEN >> {folder}/{job}; {then}"]


@pytest.fixture
def daemons(sqlite_url: str, tmp_path: Path) -> Iterator[Any]:
    made: list[Daemons] = []

    def make(store: str = sqlite_url, **jobs: Any) -> Daemons:
        made.append(Daemons(store, tmp_path, jobs))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_a_daemon_runs_each_slot_once_and_its_end_disturbs_no_run(daemons: Any, tmp_path: Path) -> None:
    one = daemons(
        quick={"schedule": "every 1s", "command": noting(tmp_path, "quick")},
        slow={"schedule": "every 2s", "command": noting(tmp_path, "slow", "sleep 3")},
    )
    first = one.start()
    until(lambda: len(one.done("quick")) >= 2 and one.done("slow"), 30, "the first slots ran")
    first.kill()
    first.wait()
    until(lambda: _settled(one, ["quick", "slow"]), 30, "what ran went on to its end")
    counts = {job: accounts.check(one.store, job, period, one.done(job)) for job, period in (("quick", 1), ("slow", 2))}
    assert counts["quick"]["ran"] >= 1 and counts["slow"]["ran"] == 1


def test_claude_code_82517_two_daemons_do_each_slot_once(daemons: Any, tmp_path: Path) -> None:
    pair = daemons(job={"schedule": "every 1s", "command": noting(tmp_path, "job")})
    pair.start()
    pair.start()
    until(lambda: len(pair.done("job")) >= 4, 60, "four slots ran")
    pair.end()
    until(lambda: _settled(pair, ["job"]), 30, "runs have ended")
    accounts.check(pair.store, "job", 1, pair.done("job"))


def test_claude_code_94415_after_an_outage_one_run_makes_up_for_all_that_was_missed(
    daemons: Any, tmp_path: Path
) -> None:
    command = ["sh", "-c", f"echo $NIGHTLATCH_SLOT $NIGHTLATCH_MISSED >> {tmp_path}/seen"]
    one = daemons(job={"schedule": "every 1s", "command": command})
    first = one.start()
    until((tmp_path / "seen").exists, 30, "the first slot ran")
    first.kill()
    first.wait()
    before = len((tmp_path / "seen").read_text().splitlines())
    time.sleep(4.0)  # the outage itself
    one.start()
    until(lambda: len((tmp_path / "seen").read_text().splitlines()) > before + 1, 30, "it goes on")
    one.end()
    missed = [int(line.split()[1]) for line in (tmp_path / "seen").read_text().splitlines()]
    assert max(missed) >= 2, missed


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_daemons_that_are_killed_and_stopped(
    daemons: Any, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Random kill -9 and SIGSTOP of daemons, forking processes and supervisors."""
    number = 3
    chance = random.Random(os.environ.get("NIGHTLATCH_SEED", "1"))
    jobs = [f"job-{place}" for place in range(int(os.environ.get("NIGHTLATCH_JOBS", "5")))]
    many = daemons(
        request.getfixturevalue(store),
        **{
            job: {"schedule": "every 2s", "command": noting(tmp_path, job), "ttl": 5.0, "lost": "again"} for job in jobs
        },
        at_once=16,
    )
    for _ in range(number):
        many.start(PATIENCE="4")
    _disturb(many, chance, number, jobs)
    ran = 0
    for job in jobs:
        counts = accounts.check(many.store, job, 2, many.done(job))
        ran += counts["ran"]
    assert ran >= len(jobs), "hardly anything ran"


@pytest.mark.skipif(SECONDS < 60, reason="the long form: NIGHTLATCH_SECONDS=60")
def test_two_machines_on_git_that_are_killed_and_stopped(daemons: Any, tmp_path: Path, http_remote: Remote) -> None:
    chance = random.Random(os.environ.get("NIGHTLATCH_SEED", "1"))
    jobs = [f"job-{place}" for place in range(5)]
    options = {"ttl": 10.0, "lost": "again"}
    pair = daemons(
        http_remote.store_url,
        **{job: {"schedule": "every 20s", "command": noting(tmp_path, job), **options} for job in jobs},
        at_once=16,
    )
    pair.homes = [tmp_path / "one", tmp_path / "two"]
    for _ in range(2):
        pair.start(PATIENCE="10")
    _disturb(pair, chance, 2, jobs)
    for job in jobs:
        accounts.check(pair.store, job, 20, pair.done(job), pair.homes)


def _disturb(many: Daemons, chance: random.Random, number: int, jobs: list[str]) -> None:
    """For a while; then every job has to go on."""
    over = clock.now() + SECONDS
    stopped: list[tuple[float, int]] = []
    while clock.now() < over:
        time.sleep(chance.uniform(0.2, 0.8))
        for moment, pid in [one for one in stopped if one[0] < clock.now()]:
            _signal(pid, signal.SIGCONT)
            stopped.remove((moment, pid))
        pid = chance.choice(_below(many) or [0])
        if chance.random() < 0.5:
            _signal(pid, signal.SIGKILL)
        else:
            _signal(pid, signal.SIGSTOP)
            stopped.append((clock.now() + chance.uniform(0.5, 4.0), pid))
        if sum(process.poll() is None for process in many.processes) < number:
            many.start(PATIENCE="4")
    for _, pid in stopped:
        _signal(pid, signal.SIGCONT)
    many.start(PATIENCE="4")
    calm = time.time()
    until(lambda: all(_ran_since(many, job, calm) for job in jobs), 120, "every job goes on after the last fault")
    many.end()


def _below(daemons: Daemons) -> list[int]:
    """Daemons, the processes that they fork from, and supervisors."""
    mine = {process.pid for process in daemons.processes if process.poll() is None}
    found = set(mine)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
            words = Path(f"/proc/{entry}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent in mine or (b"scheduler.forks" in words and parent in found):
            found.add(int(entry))
    return sorted(found)


def _signal(pid: int, signum: int) -> None:
    if pid:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            pass


def _ran_since(daemons: Daemons, job: str, moment: float) -> bool:
    return any(record.outcome == "ran" and record.first > moment for record in accounts.records(daemons.store, job))


def _settled(daemons: Daemons, jobs: list[str]) -> bool:
    return all(not accounts.open_slots(daemons.store, job) for job in jobs)


def test_a_machine_that_is_frozen_after_its_claim_starts_nothing_when_it_thaws(
    daemons: Any, tmp_path: Path, http_remote: Remote
) -> None:
    """Two state folders on one git remote: the second runs the slot."""
    command = ["sh", "-c", f"echo $NIGHTLATCH_SLOT $WHO >> {tmp_path}/seen"]
    pair = daemons(http_remote.store_url, job={"schedule": "every 15s", "command": command, "ttl": 30.0})
    frozen = pair.start(FREEZE="1", WHO="first", XDG_STATE_HOME=str(tmp_path / "one"), PATIENCE="2")
    until(lambda: _state(frozen.pid) == "T", 60, "the first one is stopped between its claim and the start")
    store = http_remote.connect()
    claimed = rows.read(store.cursors(["job"])[0]).claim
    assert claimed
    pair.start(WHO="second", XDG_STATE_HOME=str(tmp_path / "two"), PATIENCE="2")
    until((tmp_path / "seen").exists, 90, "the second one has run it")
    frozen.send_signal(signal.SIGCONT)
    slot = name_of(claimed.slot)
    until(lambda: slot in _log(tmp_path / "one"), 60, "the first one's supervisor finds that there is nothing to do")
    pair.end()
    ran = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert ran[0][1] == "second"
    assert [slot, "first"] not in ran
    assert len(ran) == len({slot for slot, _ in ran}), ran


@pytest.mark.skipif(SECONDS < 30, reason="the long form: NIGHTLATCH_SECONDS=30")
def test_a_newer_slot_elsewhere_ends_the_run_by_a_word_in_the_row(
    daemons: Any, tmp_path: Path, http_remote: Remote
) -> None:
    """overlap = "cancel" where each machine has a ledger of its own."""
    command = ["sh", "-c", f"echo $NIGHTLATCH_SLOT >> {tmp_path}/seen; exec sleep 300"]
    options = {"overlap": "cancel", "ttl": 3.0, "lost": "again", "grace": 1.0}
    one = daemons(http_remote.store_url, job={"schedule": "every 8s", "command": command, **options})
    first = one.start(XDG_STATE_HOME=str(tmp_path / "one"), PATIENCE="20")
    until((tmp_path / "seen").exists, 60, "the first slot runs")
    first.kill()  # its run goes on, and nobody is left there who could ask it to end
    one.start(XDG_STATE_HOME=str(tmp_path / "two"), PATIENCE="20")
    until(lambda: len((tmp_path / "seen").read_text().split()) >= 2, 90, "the newer slot has taken its place")
    one.end()
    assert accounts.records(http_remote.store_url, "job")[0].outcome == "ran"
    for record in http_remote.connect().records():
        _signal(record.holder.pid if record.grant else 0, signal.SIGTERM)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _log(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("supervisors.log"))
