"""The lock-guarded set of Jepsen's lock workload: a set that is read, added to and written back under a lease.

Four processes do so in a loop, while a nemesis stops them, lets them go on and kills them. An add that
was acknowledged must be in the set at the end. The lease alone cannot promise that: a holder that was
stopped between its read and its write goes on when another has long written. The fence can: the set
stands in a file with the token of its last writer, and a lower token is refused.

    python -m tests.workloads.guarded_set STORE-URL [--seconds 120] [--seed 7] [--no-fence]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nightlatch
from nightlatch.errors import StaleToken
from nightlatch.system import clock

NAME = "guarded-set"
WORKERS = 4
PATIENCE = 90.0  # seconds more for a machine on which hardly anything has happened yet


# The set and its fence


class GuardedSet:
    """A file with (token, elements). `fenced` false: the token is written and not looked at."""

    def __init__(self, folder: Path, *, fenced: bool) -> None:
        self._file, self._lock, self._fenced = folder / "set", folder / "set.lock", fenced

    def seal(self, token: int) -> None:
        """Nobody with a lower token writes from now on: what is read next stays true until we write."""
        with self._alone():
            self._admit(token)
            self._write(token, self._read()[1])

    def elements(self) -> list[str]:
        with self._alone():
            return self._read()[1]

    def replace(self, token: int, elements: list[str]) -> None:
        with self._alone():
            self._admit(token)
            self._write(token, elements)

    def _admit(self, token: int) -> None:
        stands = self._read()[0]
        if self._fenced and token < stands:
            raise StaleToken(f"{token} is behind {stands}")

    def _read(self) -> tuple[int, list[str]]:
        try:
            token, elements = json.loads(self._file.read_text())
        except FileNotFoundError:
            return 0, []
        return token, elements

    def _write(self, token: int, elements: list[str]) -> None:
        new = self._file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps([token, elements]))
        os.replace(new, self._file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with open(self._lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


# A worker


def work(url: str, folder: Path, who: str, ttl: float, fenced: bool, seed: int) -> None:
    """Add elements until ended. Every line of the log is written in one call, so kill -9 tears none."""
    store, shared, chance = nightlatch.connect(url), GuardedSet(folder, fenced=fenced), random.Random(f"{seed} {who}")
    log = os.open(folder / f"log.{who}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    count = 0
    while True:
        asked = clock.now()
        try:
            with nightlatch.lease(NAME, ttl=f"{ttl}s", wait="60s", store=store) as lease:
                note("granted", lease.token, asked, clock.now())
                shared.seal(lease.token)
                elements = shared.elements()
                time.sleep(chance.uniform(0.0, 0.08))  # the work
                element = f"{who}.{count}"
                shared.replace(lease.token, [*elements, element])
                note("added", lease.token, element)
                count += 1
        except StaleToken:
            note("refused")
        except (nightlatch.Busy, nightlatch.StoreUnreachable, nightlatch.LeaseLost) as error:
            note("without", type(error).__name__)


# The nemesis


@dataclass
class Course:
    """What happened, and what of it must not have."""

    seed: int
    seconds: float
    stops: int = 0
    kills: int = 0
    died: int = 0  # ended by somebody else: a store may end a process that was stopped in its queue
    grants: list[tuple[int, float, float]] = field(default_factory=list)  # (token, asked, had)
    added: list[str] = field(default_factory=list)
    refused: int = 0
    without: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

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

    def check(self) -> None:
        """Everything that must hold, whatever the nemesis did."""
        assert not self.repeated, f"a token was granted twice: {self}"
        assert not self.fallen, f"a later grant has a lower token: {self}"
        assert not self.lost, f"an acknowledged add is lost: {self.lost[:5]} {self}"
        assert len(self.added) > WORKERS and self.stops, f"hardly anything happened: {self}"

    def __str__(self) -> str:
        return (
            f"seed={self.seed} seconds={self.seconds:.0f} grants={len(self.grants)} added={len(self.added)} "
            f"refused={self.refused} stops={self.stops} kills={self.kills} died={self.died} without={self.without} "
            f"lost={len(self.lost)} repeated={self.repeated} fallen={self.fallen[:3]}"
        )


def run(url: str, folder: Path, *, seconds: float, seed: int, fenced: bool = True, ttl: float = 1.0) -> Course:
    """Let the workers add, and the nemesis loose on them, for so many seconds; then count."""
    folder.mkdir(parents=True, exist_ok=True)
    course = Course(seed=seed, seconds=seconds)
    nemesis = Nemesis(course, url, ["work", url, str(folder), str(ttl), str(int(fenced)), str(seed)], ttl)
    deadline = clock.now() + seconds
    try:
        # Longer on a machine so busy that hardly anything has happened by then.
        while clock.now() < deadline or (not _enough(folder) and clock.now() < deadline + PATIENCE):
            nemesis.strike()
        nemesis.let_all_go_on()
        time.sleep(ttl)  # in which they come to their late writes
    finally:
        nemesis.end()
    _count(course, folder, GuardedSet(folder, fenced=fenced))
    return course


def _enough(folder: Path) -> bool:
    return sum(log.read_text().count("added ") for log in folder.glob("log.*")) > WORKERS


class Nemesis:
    """Stops workers for less and for more than a TTL, several at once, and kills some; always starts new ones."""

    def __init__(self, course: Course, url: str, words: list[str], ttl: float) -> None:
        self._course, self._words, self._ttl, self._chance = course, words, ttl, random.Random(course.seed)
        self._store = nightlatch.connect(url)
        self._starts = 0
        self._workers = [self._start() for _ in range(WORKERS)]
        self._stopped: dict[int, float] = {}  # place → when it may go on

    def strike(self) -> None:
        time.sleep(self._chance.uniform(0.05, 0.3))
        for place in [place for place, until in self._stopped.items() if until <= clock.now()]:
            self._go_on(place)
        place, kill = self._aim(), self._chance.random() < 0.1
        pause = self._ttl * self._chance.choice((0.1, 0.5, 1.3, 1.5, 2.0))
        if self._workers[place].poll() is not None:
            self._course.died += 1
            self._replace(place)
        elif kill:  # stopped or not
            self._course.kills += 1
            self._replace(place)
        elif len(self._stopped) < WORKERS - 1:
            self._course.stops += 1
            self._workers[place].send_signal(signal.SIGSTOP)
            self._stopped.setdefault(place, clock.now() + pause)

    def _aim(self) -> int:
        """Half of the time at whoever has the lease: that is where a stop hurts."""
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
        program = [sys.executable, "-m", "tests.workloads.guarded_set"]
        return subprocess.Popen([*program, *self._words, f"w{self._starts}"], env=env, process_group=0)


def _count(course: Course, folder: Path, shared: GuardedSet) -> None:
    for log in sorted(folder.glob("log.*")):
        for line in log.read_text().splitlines():
            match line.split():
                case ["granted", token, asked, had]:
                    course.grants.append((int(token), float(asked), float(had)))
                case ["added", _token, element]:
                    course.added.append(element)
                case ["refused"]:
                    course.refused += 1
                case ["without", why]:
                    course.without[why] = course.without.get(why, 0) + 1
                case _:
                    raise ValueError(f"{log} has a line that no worker writes: {line!r}")
    stands = set(shared.elements())
    course.lost = [element for element in course.added if element not in stands]


def main() -> None:
    if sys.argv[1] == "work":
        url, place, ttl, fence, seed, who = sys.argv[2:]
        work(url, Path(place), who, float(ttl), fence == "1", int(seed))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--ttl", type=float, default=1.0)
    parser.add_argument("--no-fence", dest="fenced", action="store_false")
    given = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as folder:
        course = run(given.pop("url"), Path(folder), **given)
    print(course)
    course.check()


if __name__ == "__main__":
    main()
