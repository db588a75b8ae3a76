"""The lock-guarded set of Jepsen's lock workload: a set that is read, added to and written back under a lease.

Four processes do so in a loop, while a nemesis stops them, lets them go on, kills them and steps their wall clocks. An
add that was acknowledged must be in the set at the end, one that was refused must not, and none may be there twice. The
lease alone cannot promise that: a holder that was stopped between its read and its write goes on when another has long
written. A fence can. The set is either a file with a fence of its own, the token of its last writer (`GuardedSet`), or
a target behind one of our gates (`GatedSet`).

    python -m tests.support.workloads.guarded_set STORE-URL [--seconds 120] [--seed 7] [--no-fence]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nightlatch
from nightlatch.errors import Busy, Conflict, GateUnreachable, InDoubt, LeaseLost, StaleToken, StoreUnreachable
from nightlatch.system import clock
from tests.support.programs import until
from tests.support.workloads.fault_log import FaultLog
from tests.support.workloads.shared_sets import GatedSet, GuardedSet, Setup
from tests.support.workloads.wall_clock import WallClock

NAME = "guarded-set"
WORKERS = 4
# What a holder may meet under these faults; whether its add has landed is then unknown. Anything else ends the worker.
EXPECTED = (Busy, LeaseLost, StoreUnreachable, GateUnreachable, InDoubt, Conflict)
PATIENCE = 90.0  # seconds more for a machine on which hardly anything has happened yet


# A worker


def work(folder: Path, worker: str) -> None:
    """Add elements until ended. Every line of the log is written in one call, so kill -9 tears none."""
    options = json.loads((folder / "setup.json").read_text())
    setup = Setup(**options)
    store, shared = nightlatch.connect(setup.url), setup.open(folder)
    chance = random.Random(f"{setup.seed} {worker}")
    log = os.open(folder / f"log.{worker}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    count = 0
    while True:
        asked, element = clock.now(), f"{worker}.{count}"
        count += 1  # tried or not: a name is used once, so that an unknown outcome differs from a repetition
        try:
            with nightlatch.lease(NAME, ttl=f"{setup.ttl}s", wait="60s", store=store, gates=shared.gates) as lease:
                note("granted", lease.token, asked, clock.now())
                elements = shared.elements(lease.token)
                time.sleep(chance.uniform(0.0, 0.08))  # the work
                shared.replace(lease, [*elements, element])
                note("added", lease.token, element)
        except StaleToken:
            note("refused", element)
        except EXPECTED as error:
            note("without", type(error).__name__)
        except Exception as error:
            if not _of_the_target(error):
                raise
            note("without", type(error).__name__)


# The nemesis


@dataclass
class Course:
    """What happened, and what of it must not have."""

    seed: int
    seconds: float
    stops: int = 0
    kills: int = 0
    steps: int = 0  # of the wall clock
    cuts: int = 0  # replies that the network lost
    died: int = 0  # ended by somebody else: a store may end a process that was stopped in its queue
    grants: list[tuple[int, float, float]] = field(default_factory=list)  # (token, asked, had)
    added: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    without: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # refused, and in the set
    twice: list[str] = field(default_factory=list)

    @property
    def repeated(self) -> list[int]:
        times = Counter(token for token, _, _ in self.grants)
        return sorted(token for token, count in times.items() if count > 1)

    @property
    def fallen(self) -> list[tuple[int, int]]:
        """Grants of which one was had before the other was asked for, and whose tokens are not in that order."""
        found, had = [], iter(sorted((had, token) for token, _, had in self.grants))
        earlier, highest = next(had, None), 0
        for token, asked, _ in sorted(self.grants, key=lambda grant: grant[1]):
            while earlier and earlier[0] < asked:
                highest, earlier = max(highest, earlier[1]), next(had, None)
            if token <= highest:
                found.append((highest, token))
        return found

    @property
    def violations(self) -> list[str]:
        """Everything that must hold, whatever the nemesis did."""
        found: dict[str, list[Any]] = {
            "a token was granted twice": self.repeated,
            "a later grant has a lower token": self.fallen,
            "an acknowledged add is lost": self.lost,
            "a refused add is in the set": self.stale,
            "an add is in the set twice": self.twice,
        }
        return [f"{what}: {which[:5]}" for what, which in found.items() if which]

    def check(self) -> None:
        assert not self.violations, f"{self.violations} {self}"
        assert len(self.added) > WORKERS and self.stops, f"hardly anything happened: {self}"

    def __str__(self) -> str:
        return (
            f"seed={self.seed} seconds={self.seconds:.0f} grants={len(self.grants)} added={len(self.added)} "
            f"refused={len(self.refused)} stops={self.stops} kills={self.kills} steps={self.steps} cuts={self.cuts} "
            f"died={self.died} without={self.without} lost={len(self.lost)} repeated={self.repeated} fallen={self.fallen[:3]}"
        )


def run(setup: Setup, folder: Path, *, seconds: float, cut: Callable[[], object] | None = None) -> Course:
    """Let the workers add, and the nemesis loose on them, for so many seconds; then count.

    `cut` makes the network lose the next reply of a server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "setup.json").write_text(json.dumps(asdict(setup)))
    course = Course(seed=setup.seed, seconds=seconds)
    with WallClock(folder) as wall_clock:
        nemesis = Nemesis(course, setup, folder, wall_clock, cut)
        deadline = clock.now() + seconds
        try:
            # Longer on a machine so busy that hardly anything has happened by then.
            while clock.now() < deadline or (not _enough(folder) and clock.now() < deadline + PATIENCE):
                nemesis.strike()
            nemesis.let_all_go_on()
            time.sleep(setup.ttl)  # in which they come to their late writes
        finally:
            nemesis.end()
    _count(course, folder, setup.open(folder))
    return course


def _enough(folder: Path) -> bool:
    return sum(log.read_text().count("added ") for log in folder.glob("log.*")) > WORKERS


class Nemesis:
    """Stops workers for less and for more than a TTL, several at once, kills some and steps clocks; always starts new ones.

    The seed decides what it does next, at whom it aims and for how long it pauses. Where a worker is in its work at that
    moment is the machine's affair.
    """

    def __init__(
        self, course: Course, setup: Setup, folder: Path, wall_clock: WallClock, cut: Callable[[], object] | None
    ) -> None:
        self._course, self._setup, self._folder, self._wall_clock, self._cut = course, setup, folder, wall_clock, cut
        self._log = FaultLog(folder)
        self._chance = random.Random(setup.seed)
        self._store = nightlatch.connect(setup.url)
        self._starts = 0
        self._workers = [self._start() for _ in range(WORKERS)]
        self._stopped: dict[int, float] = {}  # place → when it may go on

    def strike(self) -> None:
        time.sleep(self._chance.uniform(0.05, 0.3))
        for place in [place for place, due in self._stopped.items() if due <= clock.now()]:
            self._go_on(place)
        place, kind = self._aim(), self._chance.random()
        pause = self._setup.ttl * self._chance.choice((0.1, 0.5, 1.3, 1.5, 2.0))
        step = self._chance.choice((-3600, -60, 0, 60, 3600))
        if self._workers[place].poll() is not None:
            self._course.died += 1
            self._replace(place)
        elif kind < 0.1:  # stopped or not
            self._course.kills += 1
            self._log.note("kill", self._workers[place].pid)
            self._replace(place)
        elif kind < 0.15:
            self._course.steps += self._wall_clock.set(step)
            self._log.note("clock", step)
        elif kind < 0.2 and self._cut:
            self._cut()
            self._course.cuts += 1
            self._log.note("cut")
        elif len(self._stopped) < WORKERS - 1 and place not in self._stopped:
            self._course.stops += 1
            self._log.note("stop", self._workers[place].pid, pause)
            self._workers[place].send_signal(signal.SIGSTOP)
            self._stopped[place] = clock.now() + pause

    def _aim(self) -> int:
        """Half of the time the holder of the lease: that is where a stop hurts."""
        place = self._chance.randrange(WORKERS)
        if self._chance.random() < 0.5:
            return place
        try:
            record = self._store.read(NAME)
        except nightlatch.StoreUnreachable:
            return place
        holders = [place for place, worker in enumerate(self._workers) if record and worker.pid == record.holder.pid]
        return holders[0] if holders else place

    def let_all_go_on(self) -> None:
        for place in list(self._stopped):
            self._go_on(place)

    def end(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._store.close()

    def _go_on(self, place: int) -> None:
        del self._stopped[place]
        self._workers[place].send_signal(signal.SIGCONT)

    def _replace(self, place: int) -> None:
        self._stopped.pop(place, None)
        self._workers[place].kill()
        self._workers[place].wait()
        self._workers[place] = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        env = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        if homes := self._setup.homes:
            env["XDG_STATE_HOME"] = homes[self._starts % len(homes)]
        words = ["work", str(self._folder), f"w{self._starts}"]
        with open(self._folder / "stderr", "ab") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.workloads.guarded_set", *words],
                env={**env, **self._wall_clock.environment},
                stderr=stderr,
                process_group=0,
            )


def _read(shared: GuardedSet | GatedSet) -> list[list[str]]:
    """The elements; nothing while the target's server is away."""
    try:
        return [shared.elements()]
    except Exception as error:
        if not _of_the_target(error):
            raise
        return []


def _of_the_target(error: Exception) -> bool:
    """From the user's own connection to the target, or from his own git, which a takeover has ended; not from us."""
    return type(error).__module__.startswith(("psycopg", "sqlite3")) or (
        isinstance(error, subprocess.CalledProcessError) and error.returncode == -signal.SIGKILL
    )


def _count(course: Course, folder: Path, shared: GuardedSet | GatedSet) -> None:
    for log in sorted(folder.glob("log.*")):
        for line in log.read_text().splitlines():
            match line.split():
                case ["granted", token, asked, had]:
                    course.grants.append((int(token), float(asked), float(had)))
                case ["added", _token, element]:
                    course.added.append(element)
                case ["refused", element]:
                    course.refused.append(element)
                case ["without", why]:
                    course.without[why] = course.without.get(why, 0) + 1
                case _:
                    raise ValueError(f"{log} has a line that no worker writes: {line!r}")
    stands = Counter(until(partial(_read, shared))[0])
    course.lost = [element for element in course.added if element not in stands]
    course.stale = [element for element in course.refused if element in stands]
    course.twice = [element for element, times in stands.items() if times > 1]


def main() -> None:
    if sys.argv[1] == "work":
        work(Path(sys.argv[2]), sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--ttl", type=float, default=1.0)
    parser.add_argument("--no-fence", dest="fenced", action="store_false")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(given.url, given.ttl, given.fenced, given.seed)
        course = run(setup, Path(folder), seconds=given.seconds)
    print(course)
    course.check()


if __name__ == "__main__":
    main()
